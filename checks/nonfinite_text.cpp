#include "checks/nonfinite_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfloat>

#include "checks/finding_text.h"
#include "checks/nonfinite_fixes.h"
#include "checks/risky_text.h"
#include "model/fact_keys.h"
#include "model/node_name.h"

namespace ddpscope {

const FloatType* float_type(std::string_view dtype) {
  static constexpr std::array<FloatType, 4> kTypes = {{
      {"float16", 65504, 0x1p-14},
      {"bfloat16", 0x1.FEp127, 0x1p-126},
      {"float32", FLT_MAX, FLT_MIN},
      {"float64", DBL_MAX, DBL_MIN},
  }};
  const auto* type = std::ranges::find(kTypes, dtype, &FloatType::dtype);
  return type == kTypes.end() ? nullptr : type;
}

std::string kind_of(const ValueRange& values) {
  if (values.inf_count == 0) return "NaN";
  return values.nan_count == 0 ? "Inf" : "NaN or Inf";
}

std::string elements_text(const ValueRange& values, std::string_view noun) {
  const std::int64_t count = values.nan_count + values.inf_count;
  return fmt::format("{} of {} {} {} {}", count, values.elements, noun, count == 1 ? "is" : "are",
                     kind_of(values));
}

namespace {
// The only module that registers it.
std::optional<ModulePlace> owner_of(TensorId leaf, const RunState& state) {
  const TensorState* tensor = leaf == 0 ? nullptr : state.tensor(leaf);
  if (tensor == nullptr || tensor->registrations.size() != 1) return std::nullopt;
  const auto& registration = tensor->registrations.front();
  return ModulePlace{.model = registration.model, .path = registration.module_path};
}

std::optional<ModulePlace> known_place(ModuleId module, TensorId leaf, const RunState& state) {
  const ModulePlace* place = state.place_of(module);
  return place != nullptr ? *place : owner_of(leaf, state);
}

// A model may be one layer, without a path.
std::string name_of(const ModulePlace& place, const RunState& state) {
  const auto model = state.models().find(place.model);
  return place.path.empty() && model != state.models().end() ? model->second.label : place.path;
}
}  // namespace

void place_between(const MadeIn& made, const RunState& state, Finding& finding) {
  place_in(made.module, state, finding);
  if (made.module != 0) return;
  const auto own = owner_of(made.leaf, state);
  const auto before = own.has_value() ? own : known_place(made.before, made.leaf_before, state);
  const auto after = own.has_value() ? own : known_place(made.after, made.leaf_after, state);
  const auto& one = before.has_value() ? before : after;
  if (one.has_value()) finding.model = state.models().at(one->model).label;
  if (!before.has_value() || !after.has_value() || before->model != after->model) return;
  finding.module_path = common_path(before->path, after->path);
}

std::string ran_text(const MadeIn& made, const std::optional<Doing>& by, const RunState& state,
                     Finding& finding) {
  const std::string line = by.has_value() ? add_site("created", by->stack, state, finding) : "";
  std::string text = where_text({.module = made.module}, line, state);
  if (made.module != 0) return text;
  if (const auto own = owner_of(made.leaf, state)) {
    return fmt::format(" on a parameter of {}{}", name_of(*own, state), text);
  }
  const auto before = known_place(made.before, made.leaf_before, state);
  const auto after = known_place(made.after, made.leaf_after, state);
  if (before.has_value() && after.has_value()) {
    return fmt::format(" between {} and {}{}", name_of(*before, state), name_of(*after, state),
                       text);
  }
  if (before.has_value()) return fmt::format(" after {}{}", name_of(*before, state), text);
  return after.has_value() ? fmt::format(" before {}{}", name_of(*after, state), text) : text;
}

void add_counts(const ValueRange& values, Finding& finding) {
  finding.facts.push_back({fact::kNanCount, values.nan_count});
  finding.facts.push_back({fact::kInfCount, values.inf_count});
}

void add_batch(const Stamp& at, const RunState& state, Finding& finding) {
  const BatchEvent& batch = state.batch();
  if (batch.fingerprint == 0 || batch.at.step != at.step) return;
  finding.facts.push_back({fact::kBatchFingerprint, fmt::format("{:016x}", batch.fingerprint)});
}

bool is_of_other_ranks(const NonfiniteOutputEvent& event) {
  return event.op == kSyncBatchNorm && event.inputs_known && !event.inputs.is_finite();
}

bool reads_no_elements(const NonfiniteOutputEvent& event) {
  return event.inputs_known && event.inputs.elements == 0;
}

namespace {
/// Of finite numbers it makes NaN only where it divides by the weight of no target.
bool averages_no_target(const NonfiniteOutputEvent& event) {
  return event.op.starts_with("aten::nll_loss") && event.values.nan_count == 1 &&
         event.values.elements == 1 && event.inputs_known && event.inputs.is_finite();
}

bool is_softmax(std::string_view op) {
  return op == "aten::softmax" || op == "aten::_softmax" || op == "aten::log_softmax" ||
         op == "aten::_log_softmax";
}

/// Of a quotient the divisor alone is kept, or both.
bool divides_by_zero(const NonfiniteOutputEvent& event) {
  return event.op.starts_with("aten::div") && event.inputs_known && event.inputs.elements > 0 &&
         event.inputs.is_finite() && event.inputs.absmax == 0;
}
}  // namespace

std::string inputs_text(const NonfiniteOutputEvent& event) {
  if (averages_no_target(event)) return "the mean over no target: all are ignored or weigh 0";
  if (divides_by_zero(event)) return "its divisor is 0";
  if (event.lost_operand) return "and one of its inputs, which needs no gradient, was not kept";
  if (event.was_zero) return "its input was 0 there";
  if (!event.inputs_known && is_softmax(event.op)) {
    return "its inputs were not kept; it makes NaN of a row of -Inf alone, as where a mask leaves "
           "out all of it";
  }
  if (!event.inputs_known) return "its inputs were not kept";
  if (is_of_other_ranks(event)) {
    return fmt::format(
        "its input finite (absmax {:.2g}): statistics of other ranks were not, in {}",
        event.inputs.absmax, counted(event.inputs.nan_count, "channel"));
  }
  if (reads_no_elements(event)) return "its input has no elements";
  if (event.inputs.is_finite()) {
    return fmt::format("all inputs finite (absmax {:.2g})", event.inputs.absmax);
  }
  return "and so are inputs that nothing known to autograd computed";
}

namespace {
/// Its square is beyond what the dtype holds.
bool is_overflown_power(const NonfiniteOutputEvent& event) {
  const double largest = event.output.dtype == "float16" ? 255 : 1e15;
  return event.op.starts_with("aten::pow") && event.inputs_known && event.inputs.is_finite() &&
         event.inputs.absmax > largest;
}

void add_input_fixes(const NonfiniteOutputEvent& event, Finding& finding) {
  using enum Applicability;
  if (divides_by_zero(event)) {
    finding.fixes.insert(finding.fixes.begin(),
                         {"divide a masked sum by clamp_min(1) of its count", kLikely});
  }
  if (!event.inputs_known && is_softmax(event.op)) {
    finding.fixes.push_back(
        {"test what is added to its input for NaN: `torch::isnan(x).any()`", kNeedsDecision});
  }
  if (event.lost_operand) {
    finding.fixes = {
        {"test the input that needs no gradient, as targets or weights: "
         "`torch::isfinite(x).all()`",
         kLikely},
        {"clamp it before its logarithm: 0 * log(0) is NaN, torch::xlogy(p, p) is 0", kLikely}};
  }
  if (event.was_zero) {
    finding.fixes = {{"add an epsilon before the operator, or clamp its input to one", kLikely},
                     {"look at what made its input 0 in this step", kNeedsDecision}};
  }
}
}  // namespace

void add_operator_fixes(const NonfiniteOutputEvent& event, const RiskyInputEvent* risky,
                        Finding& finding) {
  using enum Applicability;
  if (is_of_other_ranks(event)) {
    finding.fixes = {{"look at the rank that sent them: its batch and what runs before this layer",
                      kNeedsDecision}};
    return;
  }
  if (reads_no_elements(event) || averages_no_target(event)) {
    finding.fixes = {
        {"leave the term out where nothing is selected, or divide a sum by "
         "max(count, 1)",
         kLikely}};
    return;
  }
  finding.fixes = {{is_overflown_power(event) ? "scale its base down: the power of it is too large"
                                              : std::string(fix_of_nonfinite(event.op)),
                    kNeedsDecision}};
  add_input_fixes(event, finding);
  if (event.output.dtype == "float16") {
    finding.why += "; float16 ends at 65504";
    finding.fixes.push_back({"run it in float32 or bfloat16", kLikely});
  }
  if (risky == nullptr) return;
  finding.why += "; its " + edge_text(*risky, "was");
  finding.fixes.push_back(
      {"keep its input away from the edge of its domain, as numeric-risky-domain of the same "
       "operator says",
       kLikely});
}

void add_cause(const char* cause, const ValueRange& values, Finding& finding) {
  finding.facts.push_back({fact::kCause, std::string(cause)});
  if (values.elements == 0) return;
  add_counts(values, finding);
  finding.facts.push_back({fact::kElements, values.elements});
}

}  // namespace ddpscope
