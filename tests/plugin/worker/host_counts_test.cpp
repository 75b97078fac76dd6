#include "plugin/host_counts.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "plugin/group_limits.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::host_counts_test {
namespace {
constexpr std::int64_t kMiB = 1 << 20;

/// A tree with /proc/self/cgroup and files of groups.
class Groups {
 public:
  explicit Groups(const std::string& of_process) { write("proc/self/cgroup", of_process); }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = dir_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  GroupLimits limits() const { return group_limits(dir_ / ""); }

 private:
  TemporaryDir dir_;
};

TEST_CASE("Resident memory is what the process touches", "[worker]") {
  HostCounts host(/*local_ranks=*/1);
  const std::int64_t before = host.read({}).resident_bytes;
  REQUIRE(before > 0);
  std::vector<char> touched(64 * kMiB, 1);
  CHECK(host.read({}).resident_bytes > before + 60 * kMiB);
  CHECK(touched.back() == 1);
}

#ifndef __SANITIZE_THREAD__  // it keeps memory of its own for each page
TEST_CASE("Pages of a file that is read through memory do not count", "[worker]") {
  const TemporaryDir dir;
  const std::string path = dir / "samples.bin";
  std::ofstream(path) << std::string(64 * kMiB, 'x');
  const int file = ::open(path.c_str(), O_RDONLY);
  REQUIRE(file >= 0);
  void* const mapped = ::mmap(nullptr, 64 * kMiB, PROT_READ, MAP_SHARED, file, 0);
  REQUIRE(mapped != MAP_FAILED);
  HostCounts host(/*local_ranks=*/1);
  const std::int64_t before = host.read({}).resident_bytes;
  const volatile char* const bytes = static_cast<const char*>(mapped);
  for (std::int64_t i = 0; i < 64 * kMiB; i += 4096) REQUIRE(bytes[i] == 'x');
  CHECK(host.read({}).resident_bytes < before + 16 * kMiB);
  ::munmap(mapped, 64 * kMiB);
  ::close(file);
}
#endif

TEST_CASE("Threads are counted by their name", "[worker]") {
  std::atomic<bool> stop{false};
  std::atomic<int> named{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      pthread_setname_np(pthread_self(), "counted-one");
      ++named;
      while (!stop) usleep(1000);
    });
  }
  while (named < 3) usleep(1000);
  CHECK(threads_named("counted-one") == 3);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(threads_named("counted-one") == 0);
}

TEST_CASE("The host has cores and memory", "[worker]") {
  HostCounts host(/*local_ranks=*/2);
  const HostCountsEvent counts = host.read({.step = 5, .cycle = 5, .thread = 1});
  CHECK(counts.at.step == 5);
  CHECK(counts.cores >= 1);
  CHECK(counts.cores <= sysconf(_SC_NPROCESSORS_ONLN));
  CHECK(counts.limit_bytes > counts.resident_bytes);
  CHECK((counts.local_ranks == 2 || counts.local_ranks == 1));
  CHECK(host.read({}).uptime_ms >= counts.uptime_ms);
}

TEST_CASE("A rank that may use fewer cores than the others has them alone", "[worker]") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  if (CPU_COUNT(&all) < 2) return;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    }
    sched_setaffinity(0, sizeof one, &one);
    HostCounts host(/*local_ranks=*/4);
    const HostCountsEvent counts = host.read({});
    CHECK(counts.cores == 1);
    CHECK(counts.local_ranks == 1);
  }).join();
}

TEST_CASE("Groups of version 2 limit a process and those inside them", "[worker]") {
  const Groups groups("0::/job/task");
  groups.write("sys/fs/cgroup/job/memory.max", "8388608");
  groups.write("sys/fs/cgroup/job/task/memory.max", "max");
  groups.write("sys/fs/cgroup/job/cpu.max", "max 100000");
  groups.write("sys/fs/cgroup/job/task/cpu.max", "150000 100000");
  CHECK(groups.limits().memory_bytes == 8 * kMiB);
  CHECK(groups.limits().cores == 1.5);
}

TEST_CASE("Groups of version 1 limit by their controllers", "[worker]") {
  const Groups groups("4:memory:/job\n3:cpu,cpuacct:/job\n2:cpuset:/\n0::/");
  groups.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  groups.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "16777216");
  groups.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000");
  groups.write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  groups.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  groups.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  CHECK(groups.limits().memory_bytes == 16 * kMiB);
  CHECK(groups.limits().cores == 3);
}

TEST_CASE("Without groups nothing is limited", "[worker]") {
  const Groups groups("0::/");
  CHECK(groups.limits().memory_bytes == 0);
  CHECK(groups.limits().cores == 0);
}
}  // namespace
}  // namespace ddpscope::test::host_counts_test
