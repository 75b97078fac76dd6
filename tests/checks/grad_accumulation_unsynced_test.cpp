#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"
#include "tests/support/events.h"

namespace ddpscope::test::grad_accumulation_unsynced_test {
namespace {
/// A loop of several backwards per step on two ranks.
struct Loop {
  Program program{"grad-accumulation-unsynced", nullptr, 2};

  Loop() {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
    program.attach(2, {{.id = 3, .path = "weight"}});
    program.optimizer(1, {1, 2});
    program.optimizer(2, {3});
  }

  void average(std::int64_t elements = 8, ListedIds gradients_of = {}) {
    program.send_now(CollectiveEvent{.group_size = 2,
                                     .reduce = ReduceKind::kSum,
                                     .gradients_of = gradients_of,
                                     .averages = true,
                                     .elements = elements});
  }

  /// One step of `parts` backwards; averages follow the backwards of these numbers, from 1.
  void step(int parts, const std::set<int>& averaged, OptimizerId optimizer = 1) {
    for (int part = 1; part <= parts; ++part) {
      program.backward(optimizer == 1 ? std::vector<TensorId>{1, 2} : std::vector<TensorId>{3});
      if (averaged.contains(part)) average();
    }
    program.step(optimizer);
    program.zero_grad(optimizer);
  }
};
}  // namespace

TEST_CASE("grad-accumulation-unsynced reports an average after the first part alone", "[check]") {
  Loop loop;
  loop.step(4, {1});
  CHECK(loop.program.findings.empty());
  loop.step(4, {1});
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 1);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(finding.model == "net");
  CHECK(finding.what ==
        "backward 4 of 4 before step() was not averaged, backward 1 was (off_by_one)");
  CHECK(cause_of(finding) == "off_by_one");
  CHECK(fact_of<std::int64_t>(finding, "period") == 4);
  CHECK(finding.fixes.at(0).text == "average when `(i + 1) % 4 == 0`");
}

TEST_CASE("grad-accumulation-unsynced reports a last part that is left out", "[check]") {
  Loop loop;
  loop.step(3, {1, 2});
  loop.step(3, {1, 2});
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].what ==
        "backward 3 of 3 before step() was not averaged, backwards 1, 2 were (last_unsynced)");
  CHECK(cause_of(loop.program.findings[0]) == "last_unsynced");
}

TEST_CASE("grad-accumulation-unsynced tells whose gradients were averaged", "[check]") {
  Loop loop;
  const auto train = [&loop](const auto& first, const auto& second) {
    for (int i = 0; i < 2; ++i) {
      loop.program.backward({1, 2, 3});
      second();
      loop.program.backward({1, 2, 3});
      first();
      loop.program.step(1);
      loop.program.step(2);
    }
  };
  SECTION("by name") {
    train([&] { loop.average(8, {1}); }, [&] { loop.average(8, {3}); });
  }
  SECTION("by size") {
    train([&] { loop.average(8); }, [&] { loop.average(4); });
  }
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].model == "net2");
}

TEST_CASE("grad-accumulation-unsynced tells to average in a closure", "[check]") {
  Loop loop;
  for (int i = 0; i < 2; ++i) {
    loop.program.backward({1, 2});
    loop.average();
    loop.program.backward({1, 2});
    loop.program.step(1, /*with_closure=*/true);
  }
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].fixes.at(0).text ==
        "average in the closure that step() gets, after its backward");
}

TEST_CASE("grad-accumulation-unsynced tells patterns that differ between ranks", "[check]") {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].patterns = {
      {.step = 3, .steps = 5, .period = 4, .sides = {{"3", {1}}, {"4", {0, 2, 3}}}}};
  Finding own;
  own.id = "grad-accumulation-unsynced";
  own.rank = 1;
  own.fingerprint = "own";
  const Findings findings = judge_ranks(run, {.enabled = {own.id}, .of_ranks = {&own}}).findings;
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what ==
        "of 4 backwards before step() those that were averaged differ between ranks: 3 on rank 1, "
        "4 on ranks 0,2-3 (rank_dependent)");
  CHECK(finding.step == 3);
  CHECK(finding.last_step == 7);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(cause_of(finding) == "rank_dependent");
  CHECK(fact_in(finding, "rank_patterns") ==
        list_of({std::string("1: 3"), std::string("0,2-3: 4")}));
  CHECK(own.caused_by == finding.fingerprint);
  run.cohorts[0].patterns.clear();
  CHECK(judge_run(run, own.id).empty());
}

TEST_CASE("grad-accumulation-unsynced stays silent", "[check]") {
  Loop loop;
  SECTION("when the last part is averaged") {
    loop.step(4, {4});
    loop.step(4, {4});
  }
  SECTION("when every part is") {
    loop.step(2, {1, 2});
    loop.step(2, {1, 2});
  }
  SECTION("when averages run inside the last backward") {
    for (int i = 0; i < 3; ++i) {
      loop.program.backward({1, 2});
      loop.program.in_backward = [&loop] { loop.average(); };
      loop.program.backward({1, 2});
      loop.program.step(1);
      loop.program.zero_grad(1);
    }
  }
  SECTION("when nothing is averaged") {
    loop.step(2, {});
    loop.step(2, {});
  }
  SECTION("when it happens once, or in another way the next time") {
    loop.step(4, {1});
    loop.step(4, {4});
    loop.step(4, {1});
    loop.step(4, {2});
    loop.step(4, {4});
  }
  SECTION("on a model beside it that nobody averages") {
    for (int i = 0; i < 3; ++i) {
      loop.step(1, {1}, 1);
      loop.step(1, {}, 2);
    }
  }
  SECTION("on another model's backward between the average and the step") {
    for (int i = 0; i < 3; ++i) {
      loop.program.backward({1, 2});
      loop.average();
      loop.program.backward({3});
      loop.program.step(1);
      loop.program.zero_grad(1);
    }
  }
  SECTION("when events were lost") {
    loop.step(4, {1});
    loop.program.drop_events();
    loop.step(4, {1});
  }
  CHECK(loop.program.findings.empty());
}

}  // namespace ddpscope::test::grad_accumulation_unsynced_test
