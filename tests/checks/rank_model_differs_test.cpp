#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::rank_model_differs_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "rank-model-differs";

RanksComparedEvent with(const ModelsDiffer& models) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].models = {models};
  return run;
}

ModelsDiffer other_order() {
  return {.step = 0,
          .model = "Net",
          .cause = "order",
          .first_index = 12,
          .paths = {{"q.weight", {1}}, {"k.weight", {0, 2, 3}}},
          .counts = {{"62", {0, 1, 2, 3}}}};
}
}  // namespace

TEST_CASE("rank-model-differs names the index, the paths and the ranks of another order",
          "[check]") {
  const Findings findings = judge_run(with(other_order()), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.id == kId);
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what ==
        "registered tensor 12 is q.weight on rank 1 and k.weight on ranks 0,2-3 (order)");
  CHECK(finding.rank == 1);
  CHECK(finding.ranks == RankList{1});
  CHECK(finding.step == 0);
  CHECK(finding.phase == Phase::kInit);
  CHECK(finding.model == "Net");
  CHECK(finding.module_path == "q");
  CHECK(finding.subject == "weight");
  CHECK(fact_in(finding, "cause") == text_of("order"));
  CHECK(fact_in(finding, "first_index") == FactValue(std::int64_t{12}));
  CHECK(fact_in(finding, "path_per_rank") ==
        list_of({std::string("1: q.weight"), std::string("0,2-3: k.weight")}));
  CHECK(fact_in(finding, "minority_ranks") == ranks_of({1}));
  CHECK(finding.fixes.at(0).text.starts_with("register children"));
}

TEST_CASE("rank-model-differs says what differs of one tensor", "[check]") {
  const Findings findings = judge_run(with({.step = 40,
                                            .model = "Net",
                                            .cause = "trainable",
                                            .first_index = 3,
                                            .paths = {{"head.bias", {0, 1, 2, 3}}},
                                            .values = {{"frozen", {2}}, {"trainable", {0, 1, 3}}}}),
                                      kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "head.bias is frozen on rank 2, trainable on ranks 0-1,3 (trainable)");
  CHECK(findings[0].ranks == RankList{2});
  CHECK(findings[0].step == 40);
  CHECK(findings[0].fixes.at(0).text.starts_with("freeze"));
  CHECK(fact_in(findings[0], "value_per_rank") ==
        list_of({std::string("2: frozen"), std::string("0-1,3: trainable")}));
}

TEST_CASE("rank-model-differs counts the tensors, and names those that not all ranks have",
          "[check]") {
  const Findings findings = judge_run(with({.model = "Net",
                                            .cause = "count",
                                            .first_index = 61,
                                            .paths = {{"", {3}}, {"gain", {0, 1, 2}}},
                                            .counts = {{"61", {3}}, {"62", {0, 1, 2}}},
                                            .only_on = {{"gain", {0, 1, 2}}}}),
                                      kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "registered tensor 61 is absent on rank 3 and gain on ranks 0-2 (count); tensors: 61 on "
        "rank 3, 62 on ranks 0-2");
  CHECK(findings[0].subject == "gain");
  CHECK(fact_in(findings[0], "only_on_ranks") == list_of({std::string("0-2: gain")}));
}

TEST_CASE("rank-model-differs notes a model that some ranks have alone", "[check]") {
  const Findings findings = judge_run(with({.model = "Average",
                                            .cause = "count",
                                            .paths = {{"", {1, 2, 3}}, {"a.weight", {0}}},
                                            .counts = {{"0", {1, 2, 3}}, {"6", {0}}},
                                            .is_of_some = true}),
                                      kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kNote);
  CHECK(findings[0].ranks == RankList{0});
  CHECK(findings[0].model == "Average");
  CHECK(findings[0].module_path.empty());
  CHECK(findings[0].what ==
        "rank 0 alone has this model (count); tensors: 0 on ranks 1-3, 6 on rank 0");
}

TEST_CASE("rank-model-differs blames no rank of two", "[check]") {
  ModelsDiffer models = other_order();
  models.paths = {{"q.weight", {0}}, {"k.weight", {1}}};
  const Findings findings = judge_run(with(models), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].ranks == RankList{0, 1});
}

TEST_CASE("rank-model-differs weighs less where nothing is averaged", "[check]") {
  RanksComparedEvent run = with(other_order());
  exchange_parameters(run);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
  // The run died before its first step, in a broadcast perhaps.
  for (RankCounts& counts : run.cohorts[0].counts) counts.step = 0;
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
  run.endings.ranks[1].kind = EndKind::kException;
  CHECK(judge_run(run, kId).at(0).severity == Severity::kWarning);
  exchange_nothing(run);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
}

TEST_CASE("rank-model-differs stays silent", "[check]") {
  SECTION("where the lists are equal") { CHECK(judge_run(four_ranks(), kId).empty()); }
  SECTION("on ranks of different groups") {
    RanksComparedEvent run = with(other_order());
    run.cohorts[0].ranks = {1};
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("on one rank") {
    RanksComparedEvent run = with(other_order());
    run.world_size = 1;
    CHECK(judge_run(run, kId).empty());
  }
}

}  // namespace ddpscope::test::rank_model_differs_test
