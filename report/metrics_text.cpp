#include "report/metrics_text.h"

#include <fmt/format.h>

#include "records/utf8.h"

namespace ddpscope {
namespace {
/// The value of a label, within its quotes.
std::string label(std::string_view text) {
  std::string result;
  for (const char letter : valid_utf8(text)) {
    if (letter == '\n') {
      result += "\\n";
    } else {
      if (letter == '\\' || letter == '"') result += '\\';
      result += letter;
    }
  }
  return result;
}

class MetricsText {
 public:
  explicit MetricsText(const RunRecord& run)
      : rank_(fmt::format("rank=\"{}\",run_id=\"{}\"", run.rank, label(run.run_id))) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP ddpscope_{0} {1}\n# TYPE ddpscope_{0} {2}\n", name, help, type);
  }
  void sample(double value, const std::string& labels = "") {
    text_ += fmt::format("ddpscope_{}{{{}{}}} {}\n", name_, rank_, labels, value);
  }
  void findings(std::string_view severity, const std::map<std::string, std::int64_t>& counts) {
    for (const auto& [id, count] : counts) {
      sample(static_cast<double>(count),
             fmt::format(",id=\"{}\",severity=\"{}\"", label(id), severity));
    }
  }
  /// One gauge; nothing where it was not measured.
  void gauge(std::string_view name, std::string_view help, const std::optional<double>& value) {
    if (!value) return;
    family(name, "gauge", help);
    sample(*value);
  }
  std::string text() { return std::move(text_); }

 private:
  std::string rank_;
  std::string_view name_;
  std::string text_;
};
}  // namespace

std::string metrics_text(const RunMetrics& metrics) {
  const RunRecord& run = metrics.run;
  MetricsText text(run);
  text.family("run_info", "gauge", "Who writes this; always 1.");
  text.sample(
      1, fmt::format(",world_size=\"{}\",host=\"{}\",device=\"{}\",tool_version=\"{}\"",
                     run.world_size, label(run.host), label(run.device), label(run.tool_version)));
  text.family("steps_total", "counter", "Steps that ended.");
  text.sample(static_cast<double>(metrics.steps));
  text.gauge("step_seconds", "Duration of the last step.", metrics.step_seconds);
  text.gauge("step_overhead_seconds", "Part of the last step that was spent in hooks.",
             metrics.overhead_seconds);
  text.family("findings", "gauge", "Findings that are not suppressed, by check and severity.");
  text.findings("error", metrics.errors);
  text.findings("warning", metrics.warnings);
  text.findings("note", metrics.notes);
  text.family("findings_suppressed", "gauge", "Findings that are suppressed.");
  text.sample(static_cast<double>(metrics.suppressed));
  text.family("events_dropped_total", "counter", "Events that found the queue full.");
  text.sample(static_cast<double>(metrics.events_dropped));
  text.family("ended", "gauge", "1 once the rank has left its last record.");
  text.sample(metrics.has_ended ? 1 : 0);
  text.family("update_timestamp_seconds", "gauge", "When this was written, since 1970.");
  text.sample(static_cast<double>(metrics.unix_ns) / 1e9);
  return text.text();
}

}  // namespace ddpscope
