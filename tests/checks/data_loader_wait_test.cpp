#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::data_loader_wait_test {
namespace {
/// A run whose steps take `step_ms`, of which they wait for data first.
struct Loop {
  explicit Loop(std::int64_t world_size = 1) : program("data-loader-wait", nullptr, world_size) {
    program.attach(1, {{.id = 1, .path = "fc.weight"}});
    program.send_now(HostCountsEvent{.cores = 8});
  }

  void steps(int count, float wait_ms, float step_ms, std::int32_t loader_threads = 0) {
    for (int i = 0; i < count; ++i) {
      send({.wait_ms = wait_ms, .step_ms = step_ms, .loader_threads = loader_threads});
    }
  }
  void send(StepWaitEvent event) {
    event.at = {.step = ++step, .cycle = step, .thread = 1};
    program.send(std::move(event));
  }

  Program program;
  std::int64_t step = 1;
};
}  // namespace

TEST_CASE("data-loader-wait reports steps that wait for data", "[check]") {
  Loop loop;
  loop.steps(59, 84, 138, 16);
  CHECK(loop.program.findings.empty());
  loop.steps(1, 84, 138, 16);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.confidence == Confidence::kHigh);
  CHECK(finding.what == "61 % of the step (84 of 138 ms) waits for data");
  CHECK(finding.why == "16 loader threads on 8 usable cores");
  CHECK(finding.fixes[0].text == "DataLoaderOptions().workers(4), then measure");
  CHECK(fact_of<std::string>(finding, "kind") == "waiting");
  CHECK(fact_of<double>(finding, "wait_ms") == 84);
  CHECK(fact_of<double>(finding, "step_ms") == 138);
  CHECK(fact_of<std::int64_t>(finding, "workers_count") == 16);
  CHECK(fact_of<std::int64_t>(finding, "cores_count") == 8);
}

TEST_CASE("data-loader-wait says what makes the batches", "[check]") {
  SECTION("nothing but the training thread") {
    Loop loop;
    loop.steps(60, 84, 138, 0);
    REQUIRE(loop.program.findings.size() == 1);
    CHECK(loop.program.findings[0].why ==
          "no loader thread makes the next batch while this one trains");
    CHECK(loop.program.findings[0].fixes[0].text == "DataLoaderOptions().workers(2), then measure");
  }
  SECTION("a few loader threads") {
    Loop loop;
    loop.steps(60, 84, 138, 1);
    REQUIRE(loop.program.findings.size() == 1);
    CHECK(loop.program.findings[0].why == "1 loader thread on 8 usable cores");
    CHECK(loop.program.findings[0].fixes[0].text == "DataLoaderOptions().workers(2), then measure");
  }
  SECTION("or what the ranks exchange, which is not seen") {
    Loop loop(/*world_size=*/2);
    loop.steps(60, 84, 138, 1);
    REQUIRE(loop.program.findings.size() == 1);
    CHECK(loop.program.findings[0].confidence == Confidence::kMedium);
    CHECK(loop.program.findings[0].why.ends_with(
        "or the ranks exchange something between the step and the forward"));
  }
}

TEST_CASE("data-loader-wait reports an epoch whose loader ends slowly", "[check]") {
  Loop loop;
  loop.steps(30, 1, 50, 4);
  loop.steps(1, 2300, 50, 4);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(fact_of<std::string>(finding, "kind") == "epoch_stall");
  CHECK(finding.what ==
        "2.3 s between two steps, as long as 46 steps of 50 ms, with 4 loader threads alive");
  CHECK(finding.step == 32);
  CHECK(finding.confidence == Confidence::kMedium);
}

TEST_CASE("data-loader-wait tells its two kinds apart", "[check]") {
  Loop loop;
  loop.steps(60, 84, 138, 4);
  loop.steps(1, 2300, 138, 4);
  REQUIRE(loop.program.findings.size() == 2);
  CHECK(loop.program.findings[0].fingerprint != loop.program.findings[1].fingerprint);
}

TEST_CASE("data-loader-wait stays silent", "[check]") {
  Loop loop;
  SECTION("on the first 10 steps") {
    loop.steps(10, 84, 138);
    loop.steps(24, 1, 138);
    loop.steps(16, 84, 138);  // of the first 50 steps the most waited, but not of those that count
    loop.steps(20, 1, 138);
  }
  SECTION("on less than the window, and on waits in less than half of it") {
    loop.steps(59, 84, 138);
    loop.program.drop_events();
    for (int i = 0; i < 60; ++i) loop.steps(1, i % 2 == 0 || i < 20 ? 1.F : 84.F, 138);
  }
  SECTION("on an evaluation that stands between two steps") {
    for (int i = 0; i < 120; ++i) loop.steps(1, i % 10 == 9 ? 900.F : 1.F, 50);
  }
  SECTION("on a checkpoint that is written between two steps") {
    for (int i = 0; i < 120; ++i) {
      loop.send({.wait_ms = 1800, .step_ms = 2000, .loader_threads = 4, .archived = true});
    }
  }
  SECTION("on data that is made up") {
    for (int i = 0; i < 120; ++i) {
      StepWaitEvent event{.wait_ms = 84, .step_ms = 138, .loader_threads = 0};
      if (i < 2 || i == 62) event.drawn_ms = 60.F;
      loop.send(event);
    }
  }
  SECTION("on waits below 5 ms, and below 30 % of the step") {
    loop.steps(120, 4.9F, 6);
    loop.steps(120, 29, 100);
  }
  SECTION("on a stall without loader threads, of less than a second, or of few steps") {
    loop.steps(30, 1, 300);
    loop.steps(1, 3000, 300, 0);
    loop.steps(20, 1, 20);
    loop.steps(1, 900, 20, 4);
    loop.steps(50, 1, 300);
    loop.steps(1, 1400, 300, 4);
  }
  CHECK(loop.program.findings.empty());
}

TEST_CASE("data-loader-wait notes batches that operators of the training thread make", "[check]") {
  const std::int32_t loader_threads = GENERATE(0, 2);
  Loop loop;
  for (int i = 0; i < 60; ++i) {
    StepWaitEvent event{.wait_ms = 84, .step_ms = 138, .loader_threads = loader_threads};
    if (i < 3) event.drawn_ms = 30.F;
    if (i < 3) event.computed_ms = 20.F;
    loop.send(event);
  }
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == (loader_threads == 0 ? Severity::kNote : Severity::kWarning));
  CHECK(finding.what == (loader_threads == 0
                             ? "61 % of the step (84 of 138 ms) passes before the forward"
                             : "61 % of the step (84 of 138 ms) waits for data"));
}

TEST_CASE("data-loader-wait still counts data of which a part is drawn", "[check]") {
  Loop loop;
  for (int i = 0; i < 60; ++i) {
    StepWaitEvent event{.wait_ms = 84, .step_ms = 138};
    if (i < 3) event.drawn_ms = 30.F;
    loop.send(event);
  }
  CHECK(loop.program.findings.size() == 1);
}

}  // namespace ddpscope::test::data_loader_wait_test
