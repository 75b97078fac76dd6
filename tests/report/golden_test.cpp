#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "report/metrics_text.h"
#include "report/report_writer.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::golden_test {
namespace {

std::string golden_path(std::string_view name) {
  return std::string(DDPSCOPE_GOLDEN_DIR) + "/" + std::string(name);
}

std::string golden(std::string_view name) {
  std::ifstream file(golden_path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// DDPSCOPE_RENEW_GOLDEN=1 writes the files anew.
void compare(std::string_view name, const std::string& text) {
  if (std::getenv("DDPSCOPE_RENEW_GOLDEN") != nullptr) {
    std::ofstream(golden_path(name), std::ios::binary) << text;
  }
  CHECK(text == golden(name));
}

TEST_CASE("each format renders the fixed entry list as approved", "[report]") {
  MergedReport report =
      merge(sample_files(), {{"out/rank-9.jsonl", "the file is empty"}}, {.dir_name = "out"});
  report.ranks[0].calls = {{"all_reduce of bucket", 12, 1'500'000'000, 40, true}};
  const std::array<RuleText, 2> rules = {
      {{"norm-buffer-overwritten", Severity::kError, "Finds it."},
       {"perf-sync-calls", Severity::kNote, "Finds waits.", "# It"}}};
  const RenderOptions options = {.report_path = "out/report.html", .rules = rules};
  for (const Format& format : formats()) {
    const std::string name =
        format.file.empty() ? std::string(format.name) + ".txt" : std::string(format.file);
    compare(name, format.render(report, options));
  }
  compare("console_brief.txt", render_console(report, {.brief = true}));
}

TEST_CASE("metrics are written as approved", "[report]") {
  RunMetrics metrics{.run = sample_run(1, 4),
                     .steps = 12,
                     .step_seconds = 0.25,
                     .overhead_seconds = 0.002,
                     .errors = {{"optim-empty", 2}},
                     .notes = {{"perf-sync-calls", 1}},
                     .suppressed = 3,
                     .events_dropped = 4,
                     .unix_ns = 1'500'000'000'500'000'000};
  compare("metrics.prom", metrics_text(metrics));
}

TEST_CASE("a clean run says so in every format", "[report]") {
  RankFile file = {.path = "out/rank-0.jsonl", .run = sample_run(0, 1)};
  file.summary = sample_summary();
  const MergedReport report = merge({file}, {});
  compare("clean.txt", render_console(report, {}));
  CHECK(render_html(report, {}).find("No findings") != std::string::npos);
}

TEST_CASE("one finding prints as the contract shows it", "[report]") {
  CHECK(render_finding(sample_finding()) ==
        "rank 1 step 12 encoder.bn1 (aten::copy_): error: running_mean was overwritten after "
        "forward saved it: saved at version 3, now 4 [norm-buffer-overwritten]\n"
        "  saved:   Encoder::forward  src/model.cpp:88\n"
        "  changed: sync_buffers      src/ddp.cpp:41\n"
        "  why: the second forward of this step ran before the backward of the first\n"
        "  fix: (safe) run one concatenated forward; (likely) sync buffers once per step; "
        "(needs decision) ddpscope::SyncBatchNorm2d\n"
        "  see: ddpscope explain norm-buffer-overwritten\n");
}

TEST_CASE("the model is named with several models, and for the root", "[report]") {
  Finding finding = sample_finding();
  CHECK(render_place_line(finding, {.with_model = true}).starts_with("rank 1 step 12 net.encoder"));
  finding.module_path = "0.2";
  CHECK(render_place_line(finding).starts_with("rank 1 step 12 net.0.2 (aten::copy_): error: "));
  finding.module_path = "";
  CHECK(render_place_line(finding).starts_with("rank 1 step 12 net (aten::copy_): error: "));
  finding.model = finding.op = "";
  CHECK(render_place_line(finding).starts_with("rank 1 step 12: error: "));
}

TEST_CASE("colour is there only when it is asked for", "[report]") {
  CHECK(render_finding(sample_finding()).find('\x1b') == std::string::npos);
  CHECK(render_finding(sample_finding(), {.colour = true}).find("\x1b[1;31merror\x1b[0m") !=
        std::string::npos);
}

}  // namespace
}  // namespace ddpscope::test::golden_test
