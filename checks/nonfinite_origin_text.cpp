#include "checks/nonfinite_origin_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checks/finding_text.h"
#include "checks/nonfinite_fixes.h"
#include "checks/nonfinite_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

std::string why_of(const NonfiniteOutputEvent& event, const NonfiniteTrail& trail,
                   const RunState& state, Finding& finding) {
  std::string text = counted(event.victims, "non-finite result") + " after it in this step";
  if (event.victims == 0) text = "no other non-finite result was kept in this step";
  const LossEvent* loss = trail.loss();
  if (loss != nullptr) text += "; the loss is " + number_text(loss->value);
  const std::string ran = ran_text(event.place, event.made, state, finding);
  if (!ran.empty()) text += fmt::format("; {} ran{}", event.op, ran);
  return text;
}

/// No data is as large, nor are parameters at the start.
bool reads_what_grew(const NonfiniteOutputEvent& event) {
  constexpr double kGrown = 1e10;
  constexpr double kGrownHalf = 1e3;
  const bool is_half = event.output.dtype == "float16";
  return event.inputs_known && event.inputs.absmax > (is_half ? kGrownHalf : kGrown);
}

Finding by_operator(const NonfiniteOutputEvent& event, const NonfiniteTrail& trail,
                    const RunState& state) {
  Finding finding;
  place_between(event.place, state, finding);
  finding.op = event.op;
  const bool is_counted = event.values.elements > 0;
  const bool is_exact = is_counted && event.candidates.empty() && !event.lost_operand &&
                        (event.was_zero || (event.inputs_known && event.inputs.is_finite()));
  const bool is_sent = is_of_other_ranks(event);
  if (!is_exact && !is_sent) {
    const bool is_known = event.candidates.empty();
    finding.confidence = is_known ? Confidence::kMedium : Confidence::kLow;
    finding.evidence_status = is_known ? EvidenceStatus::kSupported : EvidenceStatus::kHypothesis;
  }
  finding.what = fmt::format("{}, {}",
                             is_counted ? elements_text(event.values, "output elements")
                                        : "NaN or Inf began here (its result was not kept)",
                             inputs_text(event));
  finding.why = why_of(event, trail, state, finding);
  if (!event.candidates.empty()) {
    finding.why += fmt::format("; what {} after it read is gone, one of them may have been first",
                               joined(event.candidates));
  }
  add_operator_fixes(event, trail.risky_input_of(event.output.id), finding);
  if (reads_what_grew(event)) say_growth(trail, finding);
  add_cause(is_sent ? "other_rank" : "operator", event.values, finding);
  return finding;
}

/// Surveyed steps saw what computes such a tensor.
void say_makers(const std::vector<std::string>& makers, Finding& finding) {
  finding.why += fmt::format("; in surveyed steps {} computed such a tensor", joined(makers));
  const std::string fix(fix_of_nonfinite(makers.front()));
  finding.fixes.insert(finding.fixes.begin(),
                       {fmt::format("{}: {}", makers.front(), fix), kLikely});
}

/// Nobody saw which operator made it: the program may have.
void say_computed(bool is_whole, Finding& finding) {
  finding.confidence = Confidence::kMedium;
  finding.evidence_status = EvidenceStatus::kSupported;
  const Fix fix{
      "where the program computes it: an epsilon in what it divides by; std of one "
      "element is NaN unless unbiased=false",
      is_whole ? kLikely : kNeedsDecision};
  finding.fixes.insert(is_whole ? finding.fixes.begin() : finding.fixes.end(), fix);
}

/// A parameter, a buffer, or a tensor that is registered nowhere: the batch.
Finding by_source(const NonfiniteOutputEvent& event, const NonfiniteTrail& trail,
                  const RunState& state) {
  const TensorState* source = state.tensor(event.source);
  const bool registered = source != nullptr && !source->registrations.empty();
  const bool is_parameter = registered || (source != nullptr && source->info.requires_grad);
  Finding finding;
  place_between(event.place, state, finding);
  finding.op = event.op;
  // A bad sample seldom spoils the whole batch: a division by 0 does.
  const bool is_whole = event.source_values.nan_count == event.source_values.elements;
  const bool is_open = is_whole || !event.candidates.empty();
  std::string what = is_open ? "a tensor without a gradient path, as the batch," : "the batch";
  finding.fixes = {{"look at the batch of this step: drop or repair the sample", kNeedsDecision},
                   {"test what the reader returns: `torch::isfinite(x).all()`", kLikely}};
  if (registered) {
    finding.model = state.model_of(*source)->label;
    finding.module_path = source->registrations.front().module_path;
    finding.subject = source->registrations.front().name;
  } else if (is_parameter) {
    finding.subject = shape_text(source->info.shape);
  }
  if (is_parameter) {
    what = (source->is_buffer ? "the buffer " : "the parameter ") + finding.subject;
    finding.fixes = {
        {"look at what wrote it last: its initialisation, a load or the program", kNeedsDecision}};
  }
  finding.what = fmt::format("{} was not finite when forward read it: {}", what,
                             elements_text(event.source_values, "elements"));
  finding.why = why_of(event, trail, state, finding);
  if (is_parameter) {
    say_growth(trail, finding);
  } else {
    say_computed(is_whole, finding);
    if (!event.candidates.empty()) say_makers(event.candidates, finding);
  }
  add_cause(is_parameter ? "parameter" : "batch", event.source_values, finding);
  return finding;
}
}  // namespace

Finding describe_origin(const NonfiniteOutputEvent& event, const NonfiniteTrail& trail,
                        const RunState& state) {
  Finding finding =
      event.source == 0 ? by_operator(event, trail, state) : by_source(event, trail, state);
  finding.severity = Severity::kError;
  finding.phase = Phase::kForward;
  finding.step = trail.ended().step;
  if (!event.output.dtype.empty()) finding.facts.push_back({fact::kDtype, event.output.dtype});
  if (event.inputs_known) finding.facts.push_back({fact::kInputAbsmax, event.inputs.absmax});
  finding.facts.push_back({fact::kVictimsCount, event.victims});
  add_batch(event.at, state, finding);
  return finding;
}

namespace {
/// In float16 that eps is 0.
bool is_lost_in_half(const std::optional<double>& eps) {
  return eps.has_value() && *eps <= 0x1p-25;
}

/// That stepped this parameter in float16 before `step`, or others which the program may write to
/// it, and has such an eps; null: there is none.
const OptimizerState* without_eps(const TensorState& source, std::int64_t step,
                                  const RunState& state) {
  // Where hooks rested, nobody counted its steps.
  const auto may_have_stepped = [&](const OptimizerState& optimizer) {
    return step > 1 && optimizer.first_seen_step < step &&
           (source.is_owned_by(optimizer.id) || (source.owners.empty() && source.is_written()));
  };
  // What is known of its type may be older than a call of to().
  const auto is_half = [&](const OptimizerMember& member) {
    const TensorState* tensor = state.tensor(member.tensor);
    return tensor == &source || (tensor != nullptr && tensor->info.dtype == "float16");
  };
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (!may_have_stepped(optimizer) || optimizer.options.size() != optimizer.groups.size()) {
      continue;
    }
    for (std::size_t i = 0; i < optimizer.groups.size(); ++i) {
      if (!is_lost_in_half(optimizer.options[i].eps)) continue;
      if (std::ranges::any_of(optimizer.groups[i], is_half)) return &optimizer;
    }
  }
  return nullptr;
}
}  // namespace

bool say_lost_eps(TensorId source, const RunState& state, Finding& finding) {
  const TensorState* tensor = state.tensor(source);
  const OptimizerState* optimizer =
      tensor == nullptr ? nullptr : without_eps(*tensor, finding.step, state);
  if (optimizer == nullptr) return false;
  finding.why += fmt::format(
      "; {} steps it in float16, where its eps is 0, and so is the square of a small gradient: it "
      "divides by 0",
      optimizer_label(*optimizer));
  std::erase_if(finding.fixes,
                [](const Fix& fix) { return fix.text.starts_with("look at what wrote it last"); });
  const std::vector<Fix> fixes = {
      {"let the optimizer step float32 copies, and copy them back", kLikely},
      {"eps of 1e-4 or more, which float16 holds beside small roots", kLikely}};
  finding.fixes.insert(finding.fixes.begin(), fixes.begin(), fixes.end());
  return true;
}

void say_growth(const NonfiniteTrail& trail, Finding& finding) {
  const auto growth = trail.growth();
  if (!growth.has_value()) return;
  finding.why +=
      fmt::format("; the loss grew from {} in step {} to {} in step {}: training diverges",
                  number_text(growth->first.value), growth->first.at.step,
                  number_text(growth->last.value), growth->last.at.step);
  std::erase_if(finding.fixes,
                [](const Fix& fix) { return fix.text.starts_with("lower the learning rate"); });
  finding.fixes.insert(finding.fixes.begin(),
                       {"lower the learning rate, or clip the norm of the gradients", kLikely});
}

}  // namespace ddpscope
