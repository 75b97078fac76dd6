#include "checks/kept_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/fact_keys.h"

namespace ddpscope {
namespace {
// In steps: what is kept until an epoch ends, and then cleared, is no fault.
constexpr std::int64_t kSomeParts = 8;
constexpr std::int64_t kLongTrained = 8192;
constexpr std::int64_t kLongEvaluated = 256;

Finding parts_finding(const BackwardEvent& event, const OldGraphs& old, bool is_trained,
                      const RunState& state) {
  using enum Applicability;
  Finding finding;
  finding.step = event.at.step;
  if (const ModelState* model = state.first_model()) finding.model = model->label;
  finding.what = fmt::format(
      "the graph of {}step {} is still alive in part, and those of each of {} sampled since",
      is_trained ? "" : "the evaluation of ", old.since, old.alive - 1);
  finding.why =
      is_trained ? "a tensor computed on the way to the loss, as a prediction, is kept with it"
                 : "outputs of a forward in eval mode are kept, with all that they were computed "
                   "from";
  finding.fixes = {
      {is_trained ? "keep y.detach()" : "evaluate under torch::NoGradGuard, or keep y.detach()",
       kLikely},
      {"clear the list where an epoch ends", kNeedsDecision}};
  finding.facts = {{fact::kCause, std::string("kept")},
                   {fact::kDepthSteps, event.at.step - old.since},
                   {fact::kRootsAliveCount, event.roots_alive},
                   {fact::kKeepGraph, event.keep_graph}};
  return finding;
}
}  // namespace

Findings KeptParts::on(const BackwardEvent& event, const RunState& state) {
  Findings findings;
  const auto judge = [&](const std::optional<OldGraphs>& old, std::int64_t steps, Told& told) {
    if (!old.has_value() || old->alive < kSomeParts || old->died > old->since) return;
    const bool is_long = event.at.step - old->since >= steps;
    const Told now = is_long ? Told::kWarning : Told::kNote;
    if (told >= now) return;
    told = now;
    findings.push_back(parts_finding(event, *old, &told == &trained_, state));
    findings.back().severity = is_long ? Severity::kWarning : Severity::kNote;
  };
  judge(event.trained, kLongTrained, trained_);
  judge(event.evaluated, kLongEvaluated, evaluated_);
  return findings;
}

}  // namespace ddpscope
