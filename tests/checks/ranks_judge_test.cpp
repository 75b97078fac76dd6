// What runs over all ranks, and what becomes of it.
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/rank_events.h"

namespace ddpscope::test::ranks_judge_test {
namespace {
class Says final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent&, Findings& findings) override {
    findings.push_back({.rank = 2, .step = 7});
  }
};
class Silent final : public Check {};
class Throws final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent&, Findings&) override {
    throw std::out_of_range("vector::at");
  }
};
const std::vector<CheckRow> kTable = {
    {.id = "a-says", .needs = "ranks", .factory = [] { return std::unique_ptr<Check>(new Says); }},
    {.id = "b-throws",
     .needs = "ranks",
     .factory = [] { return std::unique_ptr<Check>(new Throws); }},
    {.id = "c-calls",
     .needs = "ranks, calls",
     .factory = [] { return std::unique_ptr<Check>(new Says); }},
    {.id = "d-digests",
     .needs = "ranks, digests, models",
     .factory = [] { return std::unique_ptr<Check>(new Says); }},
    {.id = "e-of-one-rank",
     .needs = "",
     .factory = [] { return std::unique_ptr<Check>(new Says); }},
    {.id = "f-also",
     .needs = "tree, digests?, ranks?",
     .factory = [] { return std::unique_ptr<Check>(new Silent); }},
};

RanksJudgement judge(const RanksComparedEvent& run, RanksJudgeOptions options = {}) {
  options.enabled = {"a-says", "b-throws", "c-calls", "d-digests", "e-of-one-rank", "f-also"};
  return judge_ranks(run, options, kTable);
}
}  // namespace

TEST_CASE("checks that judge all ranks together run once and their findings are complete",
          "[judge]") {
  const RanksJudgement judgement = judge(compared_run(3));
  CHECK(judgement.coverage.at("a-says").state == CheckState::kFailed);
  CHECK_FALSE(judgement.coverage.contains("e-of-one-rank"));
  const Finding& finding = judgement.findings.at(0);
  CHECK(finding.id == "a-says");
  CHECK(finding.ranks == RankList{2});
  CHECK(finding.first_step == 7);
  CHECK(finding.last_step == 7);
  CHECK_FALSE(finding.fingerprint.empty());
}

TEST_CASE("the fault of one of them is told and costs no other", "[judge]") {
  const RanksJudgement judgement = judge(compared_run(3));
  CHECK(judgement.coverage.at("b-throws").state == CheckState::kOff);
  REQUIRE(judgement.findings.size() == 4);
  CHECK(judgement.findings[1].id == "tool-check-disabled");
  CHECK(judgement.findings[1].what == "check b-throws threw \"vector::at\" and is off");
}

TEST_CASE("they are blocked where the ranks left too little", "[judge]") {
  RanksComparedEvent run = compared_run(3);
  const auto why = [&run](const std::string& id) { return judge(run).coverage.at(id).why; };
  run.calls = 0;
  CHECK(why("c-calls") == "no rank noted a collective");
  CHECK(why("d-digests") == "");
  run.has_models = false;
  CHECK(why("d-digests") == "no model was seen on any rank");
  run.digests = 0;
  CHECK(why("d-digests") == "no rank noted a step");
  run.with_ring = {1};
  CHECK(why("c-calls") == "1 of 3 ranks left a ring");
  CHECK(why("a-says") == "");
  run.world_size = 1;
  CHECK(why("a-says") == "one rank");
  CHECK(judge(run).coverage.at("a-says").state == CheckState::kBlocked);
}

TEST_CASE("what one rank says does not stand for several that could not be compared", "[judge]") {
  RanksComparedEvent run = compared_run(3);
  CHECK_FALSE(judge(run).coverage.contains("f-also"));
  run.with_ring = {1};
  CHECK(judge(run).coverage.at("f-also").state == CheckState::kBlocked);
  CHECK(judge(run).coverage.at("f-also").why == "1 of 3 ranks left a ring");
  run.world_size = 1;
  CHECK_FALSE(judge(run).coverage.contains("f-also"));
}

TEST_CASE("what is found over all ranks can be suppressed", "[judge]") {
  RanksJudgeOptions options;
  options.decide_suppressed = [](Finding& finding) { finding.suppressed = finding.id == "a-says"; };
  CHECK(judge(compared_run(2), options).findings.at(0).suppressed);
  CHECK_FALSE(judge(compared_run(2)).findings.at(0).suppressed);
}

TEST_CASE("no check of the table runs in one rank that judges all of them", "[judge]") {
  Judge judge({}, [](const Finding&) {});
  for (const CheckRow& row : check_table()) {
    if (is_over_ranks(row)) CHECK_FALSE(judge.coverage().contains(std::string(row.id)));
  }
  CHECK(is_over_ranks(*find_check("rank-first-failure")));
  CHECK_FALSE(is_over_ranks(*find_check("grad-missing")));
}

}  // namespace ddpscope::test::ranks_judge_test
