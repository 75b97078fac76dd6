#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::rank_buffers_differ_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "rank-buffers-differ";

RanksComparedEvent with(std::int64_t step, const std::vector<std::string>& paths) {
  ValuesDiffer values{.step = step,
                      .of_buffers = true,
                      .compared = 12,
                      .sides = {{"aa", {1}}, {"bb", {0, 2, 3}}},
                      .differing = std::ssize(paths)};
  for (const std::string& path : paths) {
    values.tensors.push_back({.model = "Net", .path = path, .is_buffer = true});
  }
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].values = {values};
  return run;
}

const std::vector<std::string> kStatistics = {"norm.running_mean", "norm.running_var",
                                              "norm.num_batches_tracked"};
}  // namespace

TEST_CASE("rank-buffers-differ is an error before training", "[check]") {
  const Findings findings = judge_run(with(0, {"trunk.mask"}), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what ==
        "1 of 12 buffers differ between ranks before training (init_not_synced), trunk.mask first");
  CHECK(finding.module_path == "trunk");
  CHECK(finding.subject == "mask");
  CHECK(finding.ranks == RankList{0, 1, 2, 3});
  CHECK(fact_in(finding, "cause") == text_of("init_not_synced"));
  CHECK(fact_in(finding, "buffers") == list_of({std::string("trunk.mask")}));
  CHECK(fact_in(finding, "buffers_count") == FactValue(std::int64_t{12}));
  CHECK(fact_in(finding, "minority_ranks") == ranks_of({1}));
}

TEST_CASE("rank-buffers-differ takes running statistics that drift for a note", "[check]") {
  const Findings findings = judge_run(with(1, kStatistics), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kNote);
  CHECK(fact_in(findings[0], "cause") == text_of("running_statistics"));
  CHECK(findings[0].fixes.at(0).text.starts_with("average the running statistics"));
  CHECK(judge_run(with(0, kStatistics), kId).at(0).severity == Severity::kError);
}

TEST_CASE("rank-buffers-differ warns of other buffers that drift, and names one of them",
          "[check]") {
  std::vector<std::string> paths = kStatistics;
  paths.push_back("codes.table");
  const Findings findings = judge_run(with(16, paths), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].what ==
        "4 of 12 buffers differ between ranks at the end of step 16 (drift), codes.table first");
  CHECK(findings[0].subject == "table");
}

TEST_CASE("rank-buffers-differ weighs less where gradients are not averaged", "[check]") {
  RanksComparedEvent run = with(0, {"mask"});
  exchange_parameters(run);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
  exchange_nothing(run);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kWarning);
  RanksComparedEvent later = with(16, {"mask"});
  exchange_parameters(later);
  CHECK(judge_run(later, kId).at(0).severity == Severity::kNote);
}

TEST_CASE("rank-buffers-differ stays silent", "[check]") {
  SECTION("on equal bits") { CHECK(judge_run(four_ranks(), kId).empty()); }
  SECTION("on parameters") {
    RanksComparedEvent run = with(0, {"mask"});
    run.cohorts[0].values[0].of_buffers = false;
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("on a rank alone") {
    RanksComparedEvent run = with(0, {"mask"});
    run.cohorts[0].ranks = {1};
    CHECK(judge_run(run, kId).empty());
  }
}

}  // namespace ddpscope::test::rank_buffers_differ_test
