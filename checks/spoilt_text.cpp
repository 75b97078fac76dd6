#include "checks/spoilt_text.h"

#include <fmt/format.h>

#include <string>

#include "checks/nonfinite_text.h"
#include "checks/site_text.h"
#include "checks/spread_nonfinite.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr char kWrittenAfterBackward[] = "written_after_backward";

std::string when(const GradientsSpoiltEvent& event, bool is_averaged) {
  if (is_averaged) return "after the average over the ranks";
  return event.before_average ? "when it was averaged over the ranks"
                              : "when the optimizer stepped";
}

std::string writes_text(const GradientsSpoiltEvent& event, const RunState& state,
                        Finding& finding) {
  if (!event.first.has_value()) return "";
  const Write& first = *event.first;
  const std::string line = add_site("changed", first.by.stack, state, finding);
  const std::string where = where_text(first.by, line, state);
  if (event.writes <= 1) return fmt::format("; {}{} wrote it since", first.op, where);
  std::string text =
      fmt::format("; {} writes changed it since, the first by {}{}", event.writes, first.op, where);
  if (event.last.has_value() && event.last->op != first.op) {
    text += fmt::format(", the last by {}", event.last->op);
  }
  return text;
}
}  // namespace

void say_spoilt(const GradientsSpoiltEvent& event, const ValueRange& values, bool is_averaged,
                const RunState& state, Finding& finding) {
  finding.what = fmt::format("the gradient was not finite {}, though backward left it finite: {}",
                             when(event, is_averaged), elements_text(values, "elements"));
  finding.why.resize(finding.why.find(';'));
  finding.why +=
      is_averaged ? "; any rank may have made it so" : writes_text(event, state, finding);
  finding.why += event.before_average
                     ? "; averaging spreads it to every rank, and the optimizer stepped with it"
                     : "; the optimizer stepped with it";
  const bool is_sure = event.writes == 1 && !is_averaged;
  if (is_sure && event.first.has_value()) finding.op = event.first->op;
  finding.facts.push_back(
      {fact::kCause, std::string(is_averaged ? kAfterAveraging : kWrittenAfterBackward)});
  if (is_averaged) {
    finding.fixes = {
        {"skip the step on all ranks by a reduced flag (maximum)", kLikely},
        {"look at the rank on which it began: a merge of all ranks names it", kNeedsDecision}};
    return;
  }
  finding.fixes = {
      {"look at what is done to gradients between backward() and step(): a division by a norm, a "
       "count or a scale that is 0 makes NaN or Inf",
       kLikely},
      {"skip the step where a gradient is not finite, on all ranks alike", kNeedsDecision}};
}

}  // namespace ddpscope
