#include "tools/launch_settings.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "records/file_descriptor.h"
#include "tools/exit_status.h"

namespace ddpscope {
namespace {
constexpr std::array<std::string_view, 5> kOnWords = {"", "1", "on", "true", "yes"};
constexpr std::string_view kPreloadName = "libddpscope_preload.so";

/// Cuts at colons without a backslash before them and keeps the escapes.
std::vector<std::string> split_entries(std::string_view value) {
  std::vector<std::string> entries(1);
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\' && i + 1 < value.size() && value[i + 1] == ':') {
      entries.back() += "\\:";
      ++i;
    } else if (value[i] == ':') {
      entries.emplace_back();
    } else {
      entries.back() += value[i];
    }
  }
  std::erase(entries, "");
  return entries;
}

std::string escape_colons(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ':') result += '\\';
    result += c;
  }
  return result;
}
}  // namespace

std::string with_overrides(std::string_view value, const std::vector<SettingOverride>& overrides) {
  std::vector<std::string> entries;
  if (std::ranges::find(kOnWords, value) == kOnWords.end()) entries = split_entries(value);
  std::string result;
  const auto is_overridden = [&overrides](const std::string& entry) {
    return std::ranges::any_of(
        overrides, [&entry](const auto& o) { return entry.substr(0, entry.find('=')) == o.key; });
  };
  for (const auto& entry : entries) {
    if (!is_overridden(entry)) result += entry + ':';
  }
  for (const auto& o : overrides) result += o.key + '=' + escape_colons(o.value) + ':';
  if (!result.empty()) result.pop_back();
  return result.empty() ? "1" : result;
}

std::vector<ProcessEnvironment> rank_environments(const RankEnvironments& launch) {
  std::vector<ProcessEnvironment> result;
  for (int rank = 0; rank < launch.world_size; ++rank) {
    auto environment = launch.base;
    environment.set("RANK", std::to_string(rank));
    environment.set("LOCAL_RANK", std::to_string(rank));
    environment.set("WORLD_SIZE", std::to_string(launch.world_size));
    environment.set("MASTER_ADDR", "127.0.0.1");
    environment.set("MASTER_PORT", std::to_string(launch.master_port));
    result.push_back(std::move(environment));
  }
  return result;
}

int free_port() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, size) != 0 ||
      ::getsockname(socket.get(), generic, &size) != 0) {
    throw CommandError(ExitStatus::kUsage,
                       "no free port on 127.0.0.1 was found; name one with --master-port");
  }
  return ntohs(address.sin_port);
}

std::string new_run_id() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return fmt::format("{}:{}:{}", host, ::getpid(), ms);
}

PreloadSearch find_preload(const std::string& executable_dir,
                           const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  for (const auto& folder : folders) {
    std::error_code error;
    const auto path = fs::path(executable_dir) / folder / kPreloadName;
    if (!fs::is_regular_file(path, error)) continue;
    const auto found = fs::canonical(path, error).string();
    if (found.find_first_of(" :") == std::string::npos) return {.path = found, .problem = ""};
    return {.path = "",
            .problem = found +
                       " has a blank or a colon in its path, which LD_PRELOAD "
                       "cannot name"};
  }
  return {.path = "",
          .problem = fmt::format("{} was not found near {}", kPreloadName, executable_dir)};
}

void add_preload(ProcessEnvironment& environment, const std::string& path) {
  const auto before = environment.get("LD_PRELOAD").value_or("");
  environment.set("LD_PRELOAD", before.empty() ? path : path + ':' + before);
  // AddressSanitizer refuses to start behind another library, unless it is told not to look.
  const auto options = environment.get("ASAN_OPTIONS").value_or("");
  const std::string asked = "verify_asan_link_order";
  if (options.find(asked) != std::string::npos) return;
  environment.set("ASAN_OPTIONS", (options.empty() ? asked : options + ':' + asked) + "=0");
}

}  // namespace ddpscope
