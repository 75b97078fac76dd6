#include "plugin/host_counts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "config/env.h"
#include "plugin/group_limits.h"

namespace ddpscope {
namespace {
using Clock = std::chrono::steady_clock;
constexpr std::int64_t kSlowReadEvery = 1000;
constexpr std::int64_t kThirdCycle = 3;  // then the pools of threads stand
constexpr char kInteropThread[] = "pt_thread_pool";

std::int64_t host_memory() {
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}

/// Of process `pid`, or of this one: 0. None where that is not known.
int cores_of(pid_t pid) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(pid, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

/// The program has said where each thread runs.
bool is_placed() {
  const std::string bound = environment("OMP_PROC_BIND").value_or("");
  if (!bound.empty() && bound != "false" && bound != "FALSE") return true;
  return environment("OMP_PLACES") || environment("GOMP_CPU_AFFINITY") ||
         environment("KMP_AFFINITY");
}

/// The first process of the system, or of its container, has all cores.
bool is_pinned(int own_cores) { return own_cores < cores_of(1); }
}  // namespace

std::int64_t HostCounts::resident_bytes() const {
  char text[128] = {};
  if (::pread(memory_.get(), text, sizeof text - 1, 0) <= 0) return 0;
  std::array<std::int64_t, 3> pages{};  // all, resident, of files
  const char* from = text;
  for (std::int64_t& count : pages) {
    const auto [end, error] = std::from_chars(from, std::end(text), count);
    if (error != std::errc() || *end == '\0') return 0;
    from = end + 1;
  }
  return (pages[1] - pages[2]) * sysconf(_SC_PAGESIZE);
}

std::int64_t threads_named(std::string_view name) {
  std::error_code error;
  std::int64_t count = 0;
  std::filesystem::directory_iterator thread("/proc/self/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    std::ifstream file(thread->path() / "comm");
    std::string own_name;
    if (std::getline(file, own_name) && own_name == name) ++count;
  }
  return count;
}

HostCounts::HostCounts(std::int64_t local_ranks)
    : local_ranks_(local_ranks),
      memory_(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)),
      start_(Clock::now()) {
  counts_.threads_placed = is_placed();
}

HostCountsEvent HostCounts::read(const Stamp& at) {
  ++reads_;
  if (reads_ == 1 || reads_ == kThirdCycle || reads_ % kSlowReadEvery == 0) read_slowly();
  counts_.at = at;
  counts_.resident_bytes = resident_bytes();
  rusage usage{};
  // Whoever started threads has waited: none of both says that nothing is counted.
  const bool counted = getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_nvcsw + usage.ru_nivcsw > 0;
  counts_.preemptions = counted ? std::optional<std::int64_t>(usage.ru_nivcsw) : std::nullopt;
  counts_.uptime_ms = std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  return counts_;
}

void HostCounts::read_slowly() {
  const GroupLimits limits = group_limits();
  const int own_cores = cores_of(0);
  counts_.cores = own_cores;
  if (limits.cores > 0) {
    const auto quota = static_cast<std::int64_t>(std::ceil(limits.cores));
    counts_.cores = own_cores > 0 ? std::min<std::int64_t>(own_cores, quota) : quota;
  }
  counts_.local_ranks = is_pinned(own_cores) ? 1 : local_ranks_;
  counts_.limit_bytes = host_memory();
  if (limits.memory_bytes > 0) {
    counts_.limit_bytes = std::min(counts_.limit_bytes, limits.memory_bytes);
  }
  counts_.interop_threads = threads_named(kInteropThread);
}

}  // namespace ddpscope
