#include "report/metrics_text.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::metrics_test {
namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("metrics tell steps and findings of a rank", "[report]") {
  RunMetrics metrics{.run = sample_run(1, 4), .steps = 12, .step_seconds = 0.25};
  metrics.errors = {{"optim-empty", 2}};
  metrics.unix_ns = 1'500'000'000'500'000'000;
  const std::string text = metrics_text(metrics);
  CHECK(has(text,
            "# TYPE ddpscope_steps_total counter\n"
            "ddpscope_steps_total{rank=\"1\",run_id=\"run-a\"} 12\n"));
  CHECK(has(text, "ddpscope_step_seconds{rank=\"1\",run_id=\"run-a\"} 0.25\n"));
  CHECK(has(text,
            "ddpscope_findings{rank=\"1\",run_id=\"run-a\",id=\"optim-empty\","
            "severity=\"error\"} 2\n"));
  CHECK(has(text, "ddpscope_update_timestamp_seconds{rank=\"1\",run_id=\"run-a\"} 1500000000.5\n"));
  CHECK_FALSE(has(text, "overhead"));
}

TEST_CASE("a label stays within its quotes", "[report]") {
  RunMetrics metrics;
  metrics.run.run_id = "a\"} 1\nb\\\xff";
  CHECK(has(metrics_text(metrics),
            "ddpscope_steps_total{rank=\"0\",run_id=\"a\\\"} 1\\nb\\\\\\\\xff\"} 0\n"));
}

}  // namespace
}  // namespace ddpscope::test::metrics_test
