#include "plugin/run_info.h"

#include <ddpscope/version.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "checks/check_table.h"
#include "config/glob.h"
#include "plugin/gpu_libraries.h"
#include "plugin/launch_parent.h"
#include "records/jsonl_writer.h"

namespace ddpscope {
namespace {
std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::filesystem::path& start_directory() {
  static auto* const leaked = new std::filesystem::path;
  return *leaked;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    words.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return redact_command(words);
}

// Equal on all ranks of one launch: the launcher's word, else what the ranks of one host share.
std::string run_id(const RankEnvironment& ranks) {
  if (const auto given = environment("DDPSCOPE_RUN_ID")) return *given;
  if (ranks.world_size == 1) {
    return host_name() + ":" + std::to_string(getpid()) + ":" + utc_now();
  }
  if (!ranks.launch.empty()) return ranks.launch;
  const std::string port = environment("MASTER_PORT").value_or("");
  const std::string host = host_name() + ":" + environment("MASTER_ADDR").value_or("") + ":" + port;
  const pid_t parent =
      port.empty() ? getppid() : launch_parent(host + ":" + std::to_string(ranks.world_size));
  return host + ":" + std::to_string(parent);
}

// Why the check cannot run; empty when it can.
std::string obstacle(const CheckRow& row, const RunRecord& run, const Settings& settings) {
  if (static_cast<int>(row.level) > static_cast<int>(settings.level)) {
    return "needs level " + std::string(level_name(row.level));
  }
  if (is_over_ranks(row)) return "";  // judged at the merge
  for (const std::string_view need : split_list(row.needs)) {
    if (need.ends_with('?')) continue;
    const auto source = run.sources.find(std::string(need));
    if (source == run.sources.end() || source->second == "absent") {
      return "source " + std::string(need) + " is absent: link ddpscope before LibTorch";
    }
  }
  return "";
}
}  // namespace

RunRecord describe_run(const RankEnvironment& ranks, const Settings& settings) {
  return {.run_id = run_id(ranks),
          .tool_version = DDPSCOPE_VERSION,
          .cuda = cuda_version(),
          .nccl = nccl_version(),
          .rank = ranks.rank,
          .local_rank = ranks.local_rank,
          .world_size = ranks.world_size,
          .host = host_name(),
          .device = "cpu",
          .pid = getpid(),
          .started = utc_now(),
          .command = command_line(),
          .settings = settings.origins};
}

void add_coverage(RunRecord& run, const Settings& settings) {
  for (const CheckRow& row : check_table()) {
    if (!check_enabled(settings.checks, row.id)) continue;
    run.checks.emplace_back(row.id);
    if (const std::string why = obstacle(row, run, settings); !why.empty()) {
      run.blocked.emplace(row.id, why);
    }
  }
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const auto full = std::filesystem::absolute(path, error);
  return error ? path : full.string();
}

void keep_start_directory() noexcept {
  try {
    start_directory() = std::filesystem::current_path();
  } catch (...) {  // removed, or no memory: then relative paths begin where the program is
  }
}

std::string path_from_start(const std::string& path) {
  return absolute_path(start_directory() / path);
}

}  // namespace ddpscope
