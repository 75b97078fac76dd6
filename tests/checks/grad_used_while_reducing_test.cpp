#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::grad_used_while_reducing_test {
namespace {
struct Loop {
  Program program{"grad-used-while-reducing", nullptr, 2};

  Loop() {
    program.attach(1, {{.id = 1, .path = "fc.weight"}, {.id = 2, .path = "fc.bias"}});
    program.optimizer(1, {1, 2});
    program.backward({1, 2});
  }
  void issue(std::uint64_t seq, TensorId parameter, bool waits = false) {
    program.send_now(CollectiveEvent{.seq = seq,
                                     .group = 7,
                                     .group_size = 2,
                                     .reduce = ReduceKind::kSum,
                                     .gradients_of = {parameter},
                                     .averages = true,
                                     .elements = 4,
                                     .waits = waits});
  }
  void wait(std::uint64_t seq) { program.send_now(CollectiveEndEvent{.seq = seq, .group = 7}); }
  void divide(TensorId first) {
    program.send_now(GradientsScaledEvent{.at = {}, .factor = 0.5, .gradients = 1, .first = first});
  }
};
}  // namespace

TEST_CASE("grad-used-while-reducing reports a division before wait()", "[check]") {
  Loop loop;
  loop.issue(3, 1);
  loop.divide(1);
  loop.wait(3);
  loop.program.step(1);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 1);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(finding.module_path == "fc");
  CHECK(finding.subject == "weight");
  CHECK(finding.what == "gradient written while all_reduce #3 on it is pending");
  CHECK(fact_of<std::int64_t>(finding, "collective_seq") == 3);
  CHECK(fact_of<std::string>(finding, "access") == "write");
  CHECK(fact_of<std::string>(finding, "parameter") == "fc.weight");
  CHECK(finding.fixes.at(0).text.starts_with("`work->wait()`"));
}

TEST_CASE("grad-used-while-reducing reports a step before wait()", "[check]") {
  Loop loop;
  loop.issue(4, 2);
  loop.program.step(1);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].what ==
        "step() reads a gradient while all_reduce #4 on it is pending");
  CHECK(loop.program.findings[0].phase == Phase::kOptimizer);
  CHECK(fact_of<std::string>(loop.program.findings[0], "access") == "step");
}

TEST_CASE("grad-used-while-reducing stays silent", "[check]") {
  Loop loop;
  SECTION("after wait()") {
    loop.issue(3, 1);
    loop.wait(3);
    loop.divide(1);
  }
  SECTION("on a call that blocks") {
    loop.issue(3, 1, /*waits=*/true);
    loop.divide(1);
  }
  SECTION("on another gradient") {
    loop.issue(3, 1);
    loop.divide(2);
    loop.wait(3);
  }
  SECTION("when events were lost, perhaps the wait()") {
    loop.issue(3, 1);
    loop.program.drop_events();
    loop.divide(1);
  }
  loop.program.step(1);
  CHECK(loop.program.findings.empty());
}

}  // namespace ddpscope::test::grad_used_while_reducing_test
