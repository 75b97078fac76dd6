#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::perf_thread_oversubscription_test {
namespace {
/// Cycles of 100 ms on a host.
struct Host {
  Program program{"perf-thread-oversubscription"};
  std::int64_t cores = 64;
  std::int64_t local_ranks = 8;
  std::int32_t threads = 64;
  std::int32_t loader_threads = 0;
  std::int64_t interop_threads = 0;
  bool placed = false;
  double per_second = 900;
  bool counted = true;
  std::int64_t cycle = 0;

  void cycles(int count) {
    for (int i = 0; i < count; ++i) {
      ++cycle;
      const Stamp at{.step = cycle, .cycle = cycle, .thread = 1};
      HostCountsEvent counts{.at = at,
                             .cores = cores,
                             .local_ranks = local_ranks,
                             .threads_placed = placed,
                             .interop_threads = interop_threads,
                             .uptime_ms = 100.0 * static_cast<double>(cycle)};
      if (counted)
        counts.preemptions = static_cast<std::int64_t>(counts.uptime_ms * per_second / 1000);
      program.send(std::make_unique<HostCountsEvent>(counts));
      program.send(CycleEndEvent{
          .at = at, .wall_ms = 100, .compute_threads = threads, .loader_threads = loader_threads});
    }
  }
};
}  // namespace

TEST_CASE("perf-thread-oversubscription reports ranks that do not share the cores", "[check]") {
  Host host;
  host.cycles(20);
  REQUIRE(host.program.findings.size() == 1);
  const Finding& finding = host.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.evidence_status == EvidenceStatus::kSupported);
  CHECK(finding.what == "8 ranks × 64 threads on 64 usable cores");
  CHECK(finding.why ==
        "the ranks do not limit their threads to their share; 900 times per second a thread has "
        "to leave its core to another");
  CHECK(finding.fixes[0].text == "at::set_num_threads(8) before the first operator of each rank");
  CHECK(fact_of<std::int64_t>(finding, "local_ranks_count") == 8);
  CHECK(fact_of<std::int64_t>(finding, "threads_count") == 64);
  CHECK(fact_of<std::int64_t>(finding, "cores_count") == 64);
  CHECK(fact_of<double>(finding, "switches_per_s") == 900);
}

TEST_CASE("perf-thread-oversubscription counts loader and inter-op threads", "[check]") {
  Host host;
  host.local_ranks = 1;
  host.threads = 48;
  SECTION("of loaders") {
    host.loader_threads = 49;
    host.cycles(20);
    REQUIRE(host.program.findings.size() == 1);
    CHECK(host.program.findings[0].what ==
          "1 rank × 48 threads and 49 loader threads on 64 usable cores");
    REQUIRE(host.program.findings[0].fixes.size() == 1);
    CHECK(host.program.findings[0].fixes[0].text == "fewer loader workers");
  }
  SECTION("of at::launch") {
    host.interop_threads = 49;
    host.cycles(20);
    REQUIRE(host.program.findings.size() == 1);
    CHECK(host.program.findings[0].what == "1 rank × 97 threads on 64 usable cores");
  }
}

TEST_CASE("perf-thread-oversubscription says how sure it is", "[check]") {
  Host host;
  SECTION("few threads have to leave their core") { host.per_second = 300; }
  SECTION("the system does not count it") { host.counted = false; }
  host.cycles(20);
  REQUIRE(host.program.findings.size() == 1);
  CHECK(host.program.findings[0].evidence_status == EvidenceStatus::kHypothesis);
}

TEST_CASE("perf-thread-oversubscription looks again each 1000 steps", "[check]") {
  Host host;
  host.cycles(999);
  CHECK(host.program.judge().findings()[0].occurrences == 1);
  host.cycles(1);
  CHECK(host.program.judge().findings()[0].occurrences == 2);
}

TEST_CASE("perf-thread-oversubscription notes more ranks than cores", "[check]") {
  Host host;
  host.cores = 2;
  host.local_ranks = 4;
  host.threads = 1;
  host.cycles(20);
  REQUIRE(host.program.findings.size() == 1);
  CHECK(host.program.findings[0].severity == Severity::kNote);
  CHECK(host.program.findings[0].what == "4 ranks × 1 thread on 2 usable cores");
  CHECK(host.program.findings[0].fixes[0].text == "2 ranks on this host");
}

TEST_CASE("perf-thread-oversubscription stays silent", "[check]") {
  Host host;
  SECTION("on pools of threads that are idle") { host.per_second = 90; }
  SECTION("where the program says on which core each thread runs") { host.placed = true; }
  SECTION("up to one and a half threads for each core") { host.threads = 12; }
  SECTION("where the cores are not known") { host.cores = 0; }
  SECTION("before the third step") {
    host.counted = false;
    host.cycles(2);
    host.threads = 1;
    host.local_ranks = 1;
  }
  SECTION("until half a second was measured") {
    host.cycles(5);
    host.per_second = 0;
    host.threads = 1;
    host.local_ranks = 1;
  }
  host.cycles(20);
  CHECK(host.program.findings.empty());
}

}  // namespace ddpscope::test::perf_thread_oversubscription_test
