#include <ctime>

#include "report/report_writer.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::large_test {
namespace {

/// Names that are new on every rank, within what a reader of rank files takes.
std::vector<RankFile> files_of_names(int names) {
  constexpr int kRanks = 8;
  std::vector<RankFile> files;
  for (int rank = 0; rank < kRanks; ++rank) {
    RankFile file = {.path = "f", .run = sample_run(rank, kRanks)};
    for (int i = 0; i < names / kRanks; ++i) {
      const std::string name = std::to_string(rank) + "-" + std::to_string(i);
      file.run.checks.push_back(name);
      file.models.push_back({.name = name});
    }
    files.push_back(std::move(file));
  }
  return files;
}

/// Processor time of merging and writing a report of so many names.
double cost_of(int names) {
  const std::vector<RankFile> files = files_of_names(names);
  const std::clock_t begin = std::clock();
  const auto report = merge(files, {});
  CHECK(report.models.size() == static_cast<std::size_t>(names));
  CHECK(render_json(report, {}).size() > 100u * static_cast<std::size_t>(names));
  return static_cast<double>(std::clock() - begin);
}

// Where each name looks through all others, four times the names cost 16 times as much.
TEST_CASE("the cost of a report grows with its names", "[report]") {
  CHECK(cost_of(32'000) < 9 * cost_of(8'000));
}

// Code scanning takes 25,000 results of a file that is at most 10 MB in gzip.
TEST_CASE("a finding with its stacks takes few bytes of SARIF", "[report]") {
  constexpr std::size_t kFindings = 1000;
  MergedReport report = merge(sample_files(), {});
  const std::size_t before = render_sarif(report, {}).size();
  report.findings.insert(report.findings.end(), kFindings, sample_finding());
  CHECK(render_sarif(report, {}).size() - before < kFindings * 3500);
}

}  // namespace
}  // namespace ddpscope::test::large_test
