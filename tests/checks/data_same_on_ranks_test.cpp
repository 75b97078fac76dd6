#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::data_same_on_ranks_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "data-same-on-ranks";

RanksComparedEvent with(const SameBatches& same) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].same_batches = {same};
  return run;
}

SameBatches on_all() {
  return {.step = 1,
          .ranks = {0, 1, 2, 3},
          .steps = 90,
          .overlap_ratio = 1,
          .shape = "[32, 12] float32"};
}
}  // namespace

TEST_CASE("data-same-on-ranks tells ranks that all read the same", "[check]") {
  const Findings findings = judge_run(with(on_all()), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what == "all 4 ranks read identical batches in 90 steps");
  CHECK(finding.why.ends_with("4 processes do the work of one"));
  CHECK(finding.step == 1);
  CHECK(finding.phase == Phase::kForward);
  CHECK(finding.ranks == RankList{0, 1, 2, 3});
  CHECK(fact_in(finding, "cause") == text_of("all"));
  CHECK(fact_in(finding, "steps_count") == FactValue(std::int64_t{90}));
  CHECK(fact_in(finding, "batch_shape") == text_of("[32, 12] float32"));
}

TEST_CASE("data-same-on-ranks tells what samplers of equal batches were made with", "[check]") {
  SameBatches same = on_all();
  same.share = {.replicas = 1, .replica = 0};
  const Findings findings = judge_run(with(same), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].why ==
        "their samplers were all made with num_replicas 1 and rank 0: 4 processes do the work of "
        "one");
  CHECK(fact_in(findings[0], "replicas_count") == FactValue(std::int64_t{1}));
  CHECK(fact_in(findings[0], "replica") == FactValue(std::int64_t{0}));
}

TEST_CASE("data-same-on-ranks warns of shares that no rank reads", "[check]") {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].unread_shares = {{.step = 7, .replicas = 16, .unread = {4, 5, 6, 7, 12}}};
  SECTION("of ranks that average gradients") {
    const Findings findings = judge_run(run, kId);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].severity == Severity::kWarning);
    CHECK(findings[0].step == 7);
    CHECK(findings[0].what == "31 % of the data is read by no rank (shares_unread)");
    CHECK(findings[0].why ==
          "the samplers were made with num_replicas 16, and no process asks for the share of ranks "
          "4-7,12");
    CHECK(findings[0].fixes[0].text ==
          "num_replicas 4 for the sampler, the number of ranks that train on the data");
    CHECK(fact_in(findings[0], "cause") == text_of("shares_unread"));
    CHECK(fact_in(findings[0], "replicas_count") == FactValue(std::int64_t{16}));
    CHECK(fact_in(findings[0], "unread_replicas") == ranks_of({4, 5, 6, 7, 12}));
  }
  SECTION("as a note where they average nothing") {
    exchange_parameters(run);
    const Findings findings = judge_run(run, kId);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].severity == Severity::kNote);
  }
}

TEST_CASE("data-same-on-ranks tells which of the ranks read the same", "[check]") {
  SameBatches some = on_all();
  some.ranks = {1, 3};
  some.shape.clear();
  const Findings findings = judge_run(with(some), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "ranks 1,3 of 4 read identical batches in 90 steps");
  CHECK(fact_in(findings[0], "cause") == text_of("some"));
  CHECK(fact_in(findings[0], "equal_ranks") == ranks_of({1, 3}));
  CHECK(fact_in(findings[0], "batch_shape") == text_of("absent"));
}

TEST_CASE("data-same-on-ranks tells several groups of ranks as one", "[check]") {
  SameBatches some = on_all();
  some.ranks = {1, 3};
  RanksComparedEvent run = with(some);
  some.ranks = {0, 2};
  run.cohorts[0].same_batches.push_back(some);
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "ranks 1,3 of 4 read identical batches in 90 steps, and so do ranks 0,2");
  CHECK(findings[0].ranks == RankList{0, 1, 2, 3});
  CHECK(fact_in(findings[0], "cause") == text_of("some"));
  CHECK(fact_in(findings[0], "equal_ranks") == ranks_of({0, 1, 2, 3}));
}

TEST_CASE("data-same-on-ranks warns of ranks that each go through the whole set", "[check]") {
  SameBatches same = on_all();
  same.in_another_order = true;
  same.overlap_ratio = 0.9;
  const Findings findings = judge_run(with(same), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].what == "90 % of the batches of ranks 0-3 are the same, in another order");
  CHECK(fact_in(findings[0], "cause") == text_of("whole_set_per_rank"));
}

TEST_CASE("data-same-on-ranks is a note where the ranks average nothing", "[check]") {
  RanksComparedEvent run = with(on_all());
  exchange_parameters(run);
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kNote);
}

TEST_CASE("data-same-on-ranks stays silent on different data", "[check]") {
  CHECK(judge_run(four_ranks(), kId).empty());
}

}  // namespace ddpscope::test::data_same_on_ranks_test
