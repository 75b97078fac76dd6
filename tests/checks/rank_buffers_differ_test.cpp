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
  CHECK(
      finding.what ==
      "1 of 12 buffers differs between ranks before training (init_not_synced), trunk.mask first");
  CHECK(finding.why.starts_with("rank 1 is unlike the others; the parameters may be broadcast"));
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

/// Statistics that drift; the means of one layer lie so far apart.
RanksComparedEvent drifting(double relative) {
  RanksComparedEvent run = with(1, kStatistics);
  run.cohorts[0].values[0].estimate = {
      {.step = 96, .path = "norm.running_mean", .norm = 1.5, .relative = relative}};
  return run;
}

TEST_CASE("rank-buffers-differ warns of running statistics that an evaluation uses", "[check]") {
  RanksComparedEvent run = drifting(0.31);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
  CHECK(fact_in(judge_run(run, kId).at(0), "evaluated_ranks") == text_of("absent"));
  run.cohorts[0].counts[2].evaluated = true;
  const Finding finding = judge_run(run, kId).at(0);
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what ==
        "3 of 12 buffers differ between ranks at the end of step 1 (running_statistics), "
        "norm.running_mean first; after step 96 the running means lie about 0.31 standard "
        "deviations apart, and rank 2 evaluated with them or saved them");
  CHECK(fact_in(finding, "evaluated_ranks") == ranks_of({2}));
  CHECK(fact_in(finding, "estimated_in") == text_of("norm.running_mean"));
  CHECK(fact_in(finding, "estimated_difference_norm") == FactValue(1.5));
  CHECK(fact_in(finding, "estimated_relative_difference") == FactValue(0.31));
  exchange_parameters(run);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
}

TEST_CASE("rank-buffers-differ takes running statistics that lie close for a note", "[check]") {
  RanksComparedEvent run = drifting(0.09);
  for (RankCounts& counts : run.cohorts[0].counts) counts.evaluated = true;
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
  run = drifting(0.31);
  run.cohorts[0].counts[2].evaluated = true;
  run.cohorts[0].values[0].estimate[0].path = "codes.table";
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
}

TEST_CASE("norm-local-batch-stats is a warning where only some ranks evaluate", "[check]") {
  const auto judged = [](const RankList& evaluated, double relative) {
    RanksComparedEvent run = drifting(relative);
    for (const std::int64_t rank : evaluated) run.cohorts[0].counts[rank].evaluated = true;
    Finding note;
    note.id = "norm-local-batch-stats";
    note.severity = Severity::kNote;
    note.why = "each keeps its own";
    judge_ranks(run, {.enabled = {kId}, .of_ranks = {&note}});
    return note;
  };
  const Finding raised = judged({0}, 0.31);
  CHECK(raised.severity == Severity::kWarning);
  CHECK(raised.why == "each keeps its own; only rank 0 evaluated with them or saved them");
  CHECK(fact_in(raised, "evaluated_ranks") == ranks_of({0}));
  CHECK(judged({0, 1, 2, 3}, 0.31).severity == Severity::kNote);
  CHECK(judged({}, 0.31).severity == Severity::kNote);
  CHECK(judged({0}, 0.05).severity == Severity::kNote);
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
