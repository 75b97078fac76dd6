#include <algorithm>

#include "report/report_writer.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::html_test {
namespace {

std::int64_t count_of(const std::string& text, std::string_view part) {
  std::int64_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

RankFile rank_with_findings(std::int64_t rank, std::int64_t world_size, int findings) {
  RankFile file = {.path = "f", .run = sample_run(rank, world_size)};
  file.steps = sample_steps();
  file.summary = sample_summary();
  for (int i = 0; i < findings; ++i) {
    Finding finding = sample_finding();
    finding.rank = rank;
    finding.module_path = "layer" + std::to_string(i);
    finding.fingerprint = std::to_string(rank) + "-" + std::to_string(i);
    file.findings.push_back(finding);
  }
  return file;
}

std::string page_of(std::int64_t ranks, int findings) {
  std::vector<RankFile> files;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    files.push_back(rank_with_findings(rank, ranks, findings));
  }
  return render_html(merge(std::move(files), {}), {});
}

TEST_CASE("the page shows the modules of a model with the findings on them", "[report]") {
  const std::string page = render_html(merge(sample_files(), {}), {});
  CHECK(page.find("<details open><summary>Modules of net</summary>") != page.npos);
  CHECK(page.find("<code title=\"body.0\">0</code> <span class=\"soft\">torch::nn::LinearImpl · "
                  "1056 elements, frozen</span>") != page.npos);
  CHECK(page.find("330 elements, 1 of 2 parameters trainable") != page.npos);
  CHECK(page.find("title=\"numeric-nonfinite-loss, perf-sync-calls\">1 error</span>") != page.npos);
  CHECK(page.find("<li class=\"soft\">3 more</li>") != page.npos);
}

TEST_CASE("the page of 1,000 ranks and 10,000 findings stays below 2 MB", "[report]") {
  const std::string page = page_of(1000, 10);
  CHECK(page.size() < 2'000'000);
  CHECK(count_of(page, "<article") > 100);
  CHECK(page.find("All 1000 ranks") != page.npos);
  CHECK(page.find("are in report.json; <code>ddpscope show --id GLOB</code>") != page.npos);
  const auto shown = count_of(page, "<article") + count_of(page, "<tr><td>error</td>");
  CHECK(page.find(std::to_string(10'000 - shown) + " more are in report.json") != page.npos);
}

TEST_CASE("a small page has every finding in full", "[report]") {
  const std::string page = page_of(2, 3);
  CHECK(count_of(page, "<article") == 6);
  CHECK(page.find("more findings") == page.npos);
  CHECK(count_of(page, "id=\"f1\"") == 1);
  CHECK(page.find("href=\"#f1\"") != page.npos);
}

TEST_CASE("a slow step is marked against the median of all", "[report]") {
  const auto level = [](double longest_ms) {
    RankFile file = rank_with_findings(0, 1, 0);
    file.steps.push_back({.step = 4, .wall_ms = longest_ms});
    const std::string page = render_html(merge({file}, {}), {});
    for (int i = 3; i >= 0; --i) {
      const std::string path = "<path class=\"l" + std::to_string(i) + "\" d=\"M";
      if (page.find(path) != page.npos) return i;
    }
    return -1;
  };
  CHECK(level(21) == 0);
  CHECK(level(30) == 1);
  CHECK(level(50) == 2);
  CHECK(level(500) == 3);
  RankFile untimed = rank_with_findings(0, 1, 1);
  untimed.steps.clear();
  CHECK(render_html(merge({untimed}, {}), {}).find("<svg") == std::string::npos);
}

}  // namespace
}  // namespace ddpscope::test::html_test
