#include "report/report_writer.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::leftover_suppressions_test {
namespace {
using State = SuppressionState;

SuppressionRecord line(std::int64_t number, State state, std::string path = "ci.txt") {
  const std::string until = state == State::kExpired ? "2029-12-31" : "";
  return {std::move(path), number, "grad-" + std::to_string(number), until, state};
}

RankFile file_of(std::int64_t rank, std::vector<SuppressionRecord> suppressions) {
  RankFile file = {.path = "f", .run = sample_run(rank, 2)};
  file.suppressions = std::move(suppressions);
  file.summary = sample_summary();
  return file;
}

std::vector<std::int64_t> leftover_lines(const MergedReport& report) {
  std::vector<std::int64_t> lines;
  for (const auto& left : report.leftover_suppressions) lines.push_back(left.line);
  return lines;
}

TEST_CASE("a suppression is left over where no rank used it", "[report]") {
  const std::vector<SuppressionRecord> first = {line(1, State::kUnused), line(2, State::kUsed),
                                                line(3, State::kUnused), line(4, State::kUsed)};
  const std::vector<SuppressionRecord> second = {line(1, State::kUsed), line(2, State::kUnused),
                                                 line(3, State::kUnused), line(4, State::kUsed)};
  CHECK(leftover_lines(merge({file_of(0, first), file_of(1, second)}, {})) ==
        std::vector<std::int64_t>{3});
}

TEST_CASE("a suppression past its last day is left over unless a rank used it", "[report]") {
  const auto report = merge({file_of(0, {line(2, State::kExpired), line(1, State::kExpired)}),
                             file_of(1, {line(2, State::kUnused), line(1, State::kUsed)})},
                            {});
  REQUIRE(leftover_lines(report) == std::vector<std::int64_t>{2});
  CHECK(report.leftover_suppressions[0].state == State::kExpired);
}

TEST_CASE("a file that ranks read from different places is one", "[report]") {
  const auto report = merge(
      {file_of(0, {line(1, State::kUsed, "/a/ci.txt"), line(2, State::kUnused, "/a/ci.txt")}),
       file_of(1, {line(1, State::kUnused, "/b/ci.txt"), line(2, State::kUnused, "/b/ci.txt")})},
      {});
  REQUIRE(leftover_lines(report) == std::vector<std::int64_t>{2});
  CHECK(report.leftover_suppressions[0].path == "/a/ci.txt");
}

TEST_CASE("lines that differ are not taken for each other", "[report]") {
  SuppressionRecord other = line(1, State::kUsed);
  other.text = "optim-*";
  CHECK(leftover_lines(merge({file_of(0, {line(1, State::kUnused)}), file_of(1, {other})}, {})) ==
        std::vector<std::int64_t>{1});
}

TEST_CASE("no suppression counts as unused where a rank did not end", "[report]") {
  const std::vector<SuppressionRecord> lines = {line(1, State::kUnused), line(2, State::kExpired)};
  RankFile cut = file_of(1, {});
  cut.summary.reset();
  CHECK(leftover_lines(merge({file_of(0, lines), cut}, {})) == std::vector<std::int64_t>{2});
  CHECK(leftover_lines(merge({file_of(0, lines)}, {})) == std::vector<std::int64_t>{2});
}

TEST_CASE("a suppression that is left over is told in every report", "[report]") {
  SuppressionRecord hostile = line(7, State::kUnused);
  hostile.path = "<b>\x1b.txt";
  const auto report = merge({file_of(0, {line(3, State::kExpired), hostile}), file_of(1, {})}, {});
  const std::string text = render_verdict(report, {});
  CHECK(text.find("  suppression: ci.txt:3: grad-3: expired after 2029-12-31\n") != text.npos);
  CHECK(text.find(".txt:7: grad-7: matched no finding\n") != text.npos);
  CHECK(text.find('\x1b') == text.npos);
  CHECK(render_verdict(report, {.brief = true}).find("ci.txt") == text.npos);
  const std::string page = render_html(report, {});
  CHECK(page.find("<li>ci.txt:3: grad-3: expired after 2029-12-31</li>") != page.npos);
  CHECK(page.find("<li>&lt;b&gt;") != page.npos);
  const std::string json = render_json(report, {});
  CHECK(json.find("\"state\": \"expired\"") != json.npos);
  CHECK(json.find("\"line\": 7") != json.npos);
}

TEST_CASE("of many suppressions that are left over the first are told", "[report]") {
  std::vector<SuppressionRecord> lines;
  for (int number = 1; number <= 20; ++number) lines.push_back(line(number, State::kUnused));
  const std::string text = render_verdict(merge({file_of(0, lines), file_of(1, lines)}, {}), {});
  CHECK(text.find("ci.txt:8: ") != text.npos);
  CHECK(text.find("ci.txt:9: ") == text.npos);
  CHECK(text.find("  suppression: 12 more\n") != text.npos);
}

}  // namespace
}  // namespace ddpscope::test::leftover_suppressions_test
