#include <algorithm>

#include "report/merged_report.h"
#include "report/report_writer.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::merge_test {
namespace {

RankFile file_of(std::int64_t rank, std::int64_t world_size, Findings findings = {}) {
  RankFile file = {.path = "f", .run = sample_run(rank, world_size)};
  for (auto& finding : findings) finding.rank = rank;
  file.findings = std::move(findings);
  file.summary = sample_summary();
  return file;
}

Finding finding_of(std::string id, Severity severity, std::int64_t step = 1) {
  Finding finding = sample_finding();
  finding.fingerprint = finding.id = std::move(id);
  finding.severity = severity;
  finding.step = step;
  finding.causal_role = CausalRole::kUnknown;
  return finding;
}

TEST_CASE("equal findings of several ranks become one", "[report]") {
  const auto report = merge({file_of(0, 3, {sample_finding()}), file_of(1, 3, {sample_finding()}),
                             file_of(2, 3, {sample_finding()})},
                            {});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].ranks == std::vector<std::int64_t>{0, 1, 2});
  CHECK(report.findings[0].occurrences == 3);
  CHECK(report.findings[0].what == sample_finding().what);
  CHECK(report.errors == 1);
}

TEST_CASE("ranks that saw different values are told apart, minority first", "[report]") {
  Finding other = sample_finding();
  other.what = "other";
  Finding common = sample_finding();
  common.what = "common";
  const auto report =
      merge({file_of(0, 3, {common}), file_of(1, 3, {common}), file_of(2, 3, {other})}, {});
  CHECK(report.findings.at(0).what == "rank 2: other; ranks 0-1: common");
}

TEST_CASE("missing ranks are a finding and an incomplete run", "[report]") {
  std::vector<RankFile> files;
  for (std::int64_t rank = 0; rank < 6; ++rank) files.push_back(file_of(rank, 8));
  const auto report = merge(files, {}, {.dir_name = "out"});
  REQUIRE(report.findings.size() == 1);
  const Finding& finding = report.findings[0];
  CHECK(finding.id == "tool-rank-missing");
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what == "ranks 6 and 7 left no record in out; 6 of 8 ranks are compared");
  CHECK(finding.facts.size() == 3);
  CHECK(report.missing_ranks == std::vector<std::int64_t>{6, 7});
  CHECK(exit_code(report, Severity::kError) == 4);
  CHECK(exit_code(report, Severity::kWarning) == 1);
}

TEST_CASE("a single rank, or all of them, misses nobody", "[report]") {
  CHECK(merge({file_of(0, 1)}, {}).findings.empty());
  CHECK(merge({file_of(0, 2), file_of(1, 2)}, {}).findings.empty());
  CHECK(merge({}, {}).findings.empty());
}

TEST_CASE("a rank without a summary is noted and not missing", "[report]") {
  RankFile cut = file_of(1, 2);
  cut.summary.reset();
  cut.truncated = true;
  const auto report = merge({file_of(0, 2), cut}, {});
  CHECK(report.missing_ranks.empty());
  CHECK(report.coverage.at("grad-missing").state == CoverageState::kPassed);
  CHECK(report.coverage.at("grad-missing").why ==
        "rank 1 ended without a summary: judged up to the last line");
  CHECK(report.remarks == std::vector<std::string>{"rank 1 ended without a summary"});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].id == "tool-rank-missing");
  CHECK(report.findings[0].severity == Severity::kWarning);
  CHECK(report.findings[0].what == "the record of rank 1 ends within a line");
  CHECK(exit_code(report, Severity::kError) == 0);
  cut.truncated = false;
  CHECK(merge({file_of(0, 2), cut}, {}).findings.empty());
}

TEST_CASE("the text of an exception that ended a rank is cut visibly", "[report]") {
  RankFile thrown = file_of(0, 1);
  thrown.summary.reset();
  thrown.progress = {
      {.step = 3, .reason = "exception", .what = std::string(200, 'x'), .exception = "c10::Error"}};
  const auto remark = [&] { return merge({thrown}, {}).remarks.at(0); };
  const std::string begin = "rank 0 ended without a summary: c10::Error \"";
  CHECK(remark() == begin + std::string(200, 'x') + "\" in forward of step 3");
  thrown.progress[0].what += "y";
  CHECK(remark() == begin + std::string(200, 'x') + "...\" in forward of step 3");
}

TEST_CASE("the newest run wins and what was skipped is named", "[report]") {
  RankFile old = file_of(0, 1, {sample_finding()});
  old.run.run_id = "old";
  old.run.started = "2029-01-01T00:00:00Z";
  const auto report = merge({old, file_of(0, 1), file_of(0, 1)}, {});
  CHECK(report.run_id == "run-a");
  CHECK(report.findings.empty());
  REQUIRE(report.skipped_files.size() == 2);
  CHECK(report.skipped_files[0].why == "it belongs to another run, old");
  CHECK(report.skipped_files[1].why == "rank 0 was read from f");
}

TEST_CASE("a rank whose records are of another run is missing for that", "[report]") {
  RankFile other = file_of(1, 3);
  other.run.run_id = "old";
  other.run.started = "2029-01-01T00:00:00Z";
  const auto report = merge({file_of(0, 3), other}, {}, {.dir_name = "out"});
  REQUIRE(report.findings.size() == 1);
  const Finding& finding = report.findings[0];
  CHECK(finding.what ==
        "ranks 1 and 2 left no record of this run in out; 1 of 3 ranks are compared");
  CHECK(finding.why.starts_with("rank 1 left records of another run there: their processes"));
  CHECK(finding.fixes[0].text == "set DDPSCOPE_RUN_ID to one word for all ranks");
}

TEST_CASE("errors, then initiating, then early findings are primary", "[report]") {
  Finding initiating = finding_of("d", Severity::kError, 9);
  initiating.causal_role = CausalRole::kInitiating;
  const Findings all = {finding_of("a", Severity::kWarning), finding_of("b", Severity::kError, 5),
                        finding_of("c", Severity::kError, 4)};
  CHECK(merge({file_of(0, 1, all)}, {}).primary == "c");
  Findings with = all;
  with.push_back(initiating);
  CHECK(merge({file_of(0, 1, with)}, {}).primary == "d");
}

TEST_CASE("a finding is not primary while its cause is there", "[report]") {
  Finding effect = finding_of("a", Severity::kError);
  effect.caused_by = "b";
  const Finding cause = finding_of("b", Severity::kWarning);
  const auto both = merge({file_of(0, 1, {effect, cause})}, {});
  CHECK(both.primary == "b");
  REQUIRE(both.incidents.size() == 1);
  CHECK(both.incidents[0].members == std::vector<std::string>{"a"});
  CHECK(merge({file_of(0, 1, {effect})}, {}).primary == "a");
}

TEST_CASE("an incident stands where the heaviest of its findings does", "[report]") {
  Finding effect = finding_of("a", Severity::kError, 7);
  effect.caused_by = "c";
  const Findings all = {finding_of("b", Severity::kWarning, 1), effect,
                        finding_of("c", Severity::kWarning, 5)};
  const auto report = merge({file_of(0, 1, all)}, {});
  REQUIRE(report.incidents.size() == 2);
  CHECK(report.primary == "c");
  CHECK(report.incidents[1].primary == "b");
}

TEST_CASE("a circle of causes still has a primary", "[report]") {
  Finding a = finding_of("a", Severity::kError);
  Finding b = finding_of("b", Severity::kError);
  a.caused_by = "b";
  b.caused_by = "a";
  const auto report = merge({file_of(0, 1, {a, b})}, {});
  REQUIRE(report.incidents.size() == 1);
  CHECK(report.incidents[0].members.size() == 1);
  CHECK_FALSE(report.primary.empty());
}

TEST_CASE("a suppressed finding is told with the reason of its line", "[report]") {
  Finding quiet = finding_of("grad-missing", Severity::kError);
  quiet.suppressed = true;
  quiet.suppression_reason = "head <b> is trained later";
  Finding other = quiet;
  other.rank = 1;
  const auto report = merge({file_of(0, 2, {quiet}), file_of(1, 2, {other})}, {});
  REQUIRE(report.findings.size() == 1);
  const RenderOptions options{.show_suppressed = true};
  CHECK(render_console(report, options)
            .find("[grad-missing] (suppressed: head <b> is trained later)") != std::string::npos);
  CHECK(render_json(report, options).find("\"suppression_reason\"") != std::string::npos);
  CHECK(render_sarif(report, options).find("\"justification\"") != std::string::npos);
  const std::string html = render_html(report, options);
  CHECK(html.find("Suppressed: head &lt;b&gt; is trained later") != std::string::npos);
  CHECK(html.find("No findings that count") != std::string::npos);
  CHECK(html.find("1 finding suppressed.") != std::string::npos);
}

TEST_CASE("where one rank does not suppress a finding, it counts", "[report]") {
  Finding quiet = finding_of("grad-missing", Severity::kError);
  Finding loud = quiet;
  loud.rank = 1;
  quiet.suppressed = true;
  quiet.suppression_reason = "known";
  const auto report = merge({file_of(0, 2, {quiet}), file_of(1, 2, {loud})}, {});
  REQUIRE(report.findings.size() == 1);
  CHECK_FALSE(report.findings[0].suppressed);
  CHECK(report.findings[0].suppression_reason.empty());
  CHECK(report.errors == 1);
}

TEST_CASE("suppressed findings stay and do not count", "[report]") {
  Finding quiet = finding_of("grad-missing", Severity::kError);
  quiet.suppressed = true;
  const auto report = merge({file_of(0, 1, {quiet})}, {});
  CHECK(report.findings.size() == 1);
  CHECK(report.errors == 0);
  CHECK(report.suppressed == 1);
  CHECK(report.primary.empty());
  CHECK(exit_code(report, Severity::kNote) == 0);
  CHECK(report.coverage.at("grad-missing").state == CoverageState::kPassed);
}

TEST_CASE("a blocked check that was named makes the run incomplete", "[report]") {
  const auto report = merge({file_of(0, 1)}, {});
  CHECK(report.coverage.at("collective-order").state == CoverageState::kBlocked);
  CHECK(report.coverage.at("collective-order").ranks == std::vector<std::int64_t>{0});
  CHECK(exit_code(report, Severity::kError) == 0);
  CHECK(exit_code(report, Severity::kError, {"collective-order"}) == 4);
}

TEST_CASE("ranks print as ranges", "[report]") {
  CHECK(rank_words({3}) == "rank 3");
  CHECK(rank_words({0, 1, 2, 3}) == "ranks 0-3");
  CHECK(rank_ranges({0, 1, 3, 7, 8}) == "0-1,3,7-8");
}

}  // namespace
}  // namespace ddpscope::test::merge_test
