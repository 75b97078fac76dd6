#include "checks/cause_links.h"

#include <algorithm>
#include <array>

#include "checks/fact_words.h"
#include "checks/refused_nan.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
/// Whether the list is not empty and all of it stands in the other one.
bool all_in(const Finding& effect, std::string_view key, const Finding& cause,
            std::string_view cause_key) {
  const FactValue* effect_value = find_fact(effect, key);
  const FactValue* cause_value = find_fact(cause, cause_key);
  if (effect_value == nullptr || cause_value == nullptr) return false;
  const auto* some = std::get_if<std::vector<FactScalar>>(effect_value);
  const auto* all = std::get_if<std::vector<FactScalar>>(cause_value);
  if (some == nullptr || all == nullptr || some->empty()) return false;
  return std::ranges::all_of(
      *some, [all](const FactScalar& word) { return std::ranges::find(*all, word) != all->end(); });
}

bool is_true(const Finding& finding, std::string_view key) {
  const FactValue* value = find_fact(finding, key);
  return value != nullptr && *value == FactValue(true);
}

bool is_fact_zero(const Finding& finding, std::string_view key) {
  const FactValue* value = find_fact(finding, key);
  return value == nullptr || *value == FactValue(std::int64_t{0});
}

bool same_number(const Finding& a, std::string_view key_a, const Finding& b,
                 std::string_view key_b) {
  const FactValue* first = find_fact(a, key_a);
  const FactValue* second = find_fact(b, key_b);
  return first != nullptr && second != nullptr && *first == *second;
}

/// Parameters that no optimizer holds are none that its zero_grad() clears.
bool is_why_none_clears(const Finding& cause, const Finding& effect) {
  return cause.id == "optim-missing-parameter" && cause.severity == Severity::kError &&
         find_fact(effect, fact::kOptimizers) == nullptr &&
         all_in(effect, fact::kParameters, cause, fact::kParameters);
}

/// What is why parameters that get gradients belong to no optimizer.
bool is_why_none_steps(const Finding& cause, const Finding& effect) {
  if (effect.id == "optim-stale-gradient") return is_why_none_clears(cause, effect);
  if (effect.id != "optim-missing-parameter") return false;
  if (cause.id == "optim-foreign-parameter") {
    return all_in(effect, fact::kParameters, cause, fact::kTwinPaths);
  }
  const FactValue* optimizers = find_fact(effect, fact::kOptimizersCount);
  return cause.id == "optim-empty" && cause.severity == Severity::kError && optimizers != nullptr &&
         *optimizers == FactValue(std::int64_t{1});
}

bool is_replacement_seen_as(const Finding& cause, const Finding& effect) {
  if (effect.id == "optim-missing-parameter" || effect.id == "grad-missing" ||
      effect.id == "grad-zero-instead-of-none") {
    return all_in(effect, fact::kParameters, cause, fact::kParameters);
  }
  if (effect.id == "optim-foreign-parameter") {
    return all_in(effect, fact::kTwinPaths, cause, fact::kParameters);
  }
  // What forward uses in place of the registered tensors is registered nowhere.
  return effect.id == "module-unregistered" &&
         same_number(cause, fact::kParametersCount, effect, fact::kTensorsCount) &&
         same_number(cause, fact::kElements, effect, fact::kElements);
}

/// The setting halt_on ended the run because of it.
bool is_why_it_halted(const Finding& cause, const Finding& effect) {
  const std::string_view thrown = text_in(effect, fact::kException);
  return cause.rank == effect.rank && thrown.find("ddpscope: halt_on: ") != std::string::npos &&
         thrown.find("[" + cause.id + "]") != std::string::npos;
}

/// What a rank found in the step in which it died, or because of which `halt_on` ended it.
bool is_why_it_ended(const Finding& cause, const Finding& effect) {
  if (is_why_it_halted(cause, effect)) return true;
  return cause.rank == effect.rank && cause.step == effect.step &&
         cause.severity == Severity::kError &&
         (cause.id == "module-operator-failed" || cause.id == "loss-target-range" ||
          cause.id == "norm-batch-of-one" || cause.id == "norm-buffer-overwritten" ||
          cause.id == "device-mismatch" || cause.id.starts_with("memory-") ||
          cause.id.starts_with("autograd-"));
}

/// A check that knows why LibTorch threw, and words of what it throws.
struct KnowsWhy {
  std::string_view id;
  std::string_view words;
};
constexpr std::array<KnowsWhy, 13> kKnowWhy = {{
    {"autograd-inplace-saved", "by an inplace operation"},
    {"norm-buffer-overwritten", "by an inplace operation"},
    {"autograd-multiview-inplace", "being modified inplace"},
    {"autograd-leaf-inplace", "leaf Variable"},
    {"autograd-double-backward", "a second time"},
    {"loss-target-range", "out of bounds"},
    {"loss-target-range", "should be between 0 and 1"},
    {"loss-target-range", "Class values"},
    {"loss-target-range", "out of range"},
    {"memory-out-of-memory", ""},
    {"norm-batch-of-one", "more than 1 value per channel"},
    {"device-mismatch", ""},
    {"loss-target-range", "assert"},
}};

/// The operator that was left by the exception that the cause explains: another may follow it in
/// its step, where the program catches it.
bool is_why_it_threw(const Finding& cause, const Finding& effect) {
  if (cause.rank != effect.rank || cause.step != effect.step) return false;
  const FactValue* thrown = find_fact(effect, fact::kException);
  const auto* text = thrown == nullptr ? nullptr : std::get_if<std::string>(thrown);
  return std::ranges::any_of(kKnowWhy, [&](const KnowsWhy& known) {
    return cause.id == known.id &&
           (text == nullptr || text->find(known.words) != std::string::npos);
  });
}

/// A Reducer that waited for gradients, and what LibTorch threw of it in the next pass. Of a
/// program that only ended with a code the text is not known.
bool is_unfinished_reduction(const Finding& cause, const Finding& effect) {
  const bool of_reducer = cause.id == "grad-missing" && is_true(cause, fact::kReducerPresent);
  if (!of_reducer || cause.rank != effect.rank || cause.step > effect.step) return false;
  const FactValue* thrown = find_fact(effect, fact::kException);
  if (thrown == nullptr) return effect.step <= cause.step + 1;
  const auto* text = std::get_if<std::string>(thrown);
  return text != nullptr && text->find("finished reduction in the prior") != std::string::npos;
}

/// What `to(device)` cannot move, because no module registers it.
bool is_why_it_stayed(const Finding& cause, const Finding& effect) {
  const FactValue* kind = find_fact(effect, fact::kOwnerKind);
  const bool loose = kind != nullptr && *kind == FactValue(std::string("unregistered"));
  return loose && (cause.id == "module-unregistered" || cause.id == "module-plain-tensor");
}

/// Tensors of no known model, and the model that holds them and became known later.
bool became_known(const Finding& cause, const Finding& effect) {
  return cause.id == "module-unregistered" && effect.id == "optim-missing-parameter" &&
         cause.rank == effect.rank && cause.step <= effect.step &&
         same_number(cause, fact::kTensorsCount, effect, fact::kParametersCount) &&
         same_number(cause, fact::kElements, effect, fact::kElements);
}

/// A clip that wrote NaN into gradients, and the forward that then reads the parameters.
bool spoilt_the_parameters(const Finding& cause, const Finding& effect) {
  const FactValue* of = find_fact(effect, fact::kCause);
  const bool of_parameter = of != nullptr && *of == FactValue(std::string("parameter"));
  return of_parameter && cause.id == "clip-nonfinite-norm" && cause.rank == effect.rank &&
         cause.step < effect.step;
}

/// A clip that wrote NaN into gradients, and a later norm of what the parameters then give.
bool spoilt_the_norm(const Finding& cause, const Finding& effect) {
  const FactValue* kind = find_fact(cause, fact::kNormKind);
  const bool left_nan = (kind != nullptr && *kind == FactValue(std::string("nan"))) ||
                        !is_fact_zero(cause, fact::kNonfiniteCount);
  return left_nan && cause.id == effect.id && cause.rank == effect.rank && cause.step < effect.step;
}

/// What made a gradient of the step not finite, and the clip that spread it over all of them.
bool made_the_norm(const Finding& cause, const Finding& effect) {
  const FactValue* of = find_fact(effect, fact::kCause);
  return of != nullptr && *of == FactValue(std::string("nonfinite_gradient")) &&
         cause.id.starts_with("numeric-nonfinite-") && cause.rank == effect.rank &&
         cause.step == effect.step;
}

/// An operator read what no data is as large as.
bool read_what_grew(const Finding& finding) {
  constexpr double kGrown = 1e10;
  const FactValue* absmax = find_fact(finding, fact::kInputAbsmax);
  const auto* largest = absmax == nullptr ? nullptr : std::get_if<double>(absmax);
  return largest != nullptr && *largest > kGrown;
}

/// Gradients that are never cleared grow, and with them the steps, until something overflows. So
/// do parameters that diverge: the loss overflows first, and its gradients may be finite yet.
bool grew_until(const Finding& cause, const Finding& effect) {
  const bool diverged = cause.id == effect.id && read_what_grew(cause);
  const bool is_cause = diverged || cause.id == "optim-stale-gradient";
  return is_cause && cause.severity == Severity::kError && read_what_grew(effect) &&
         cause.rank == effect.rank && cause.step < effect.step;
}

/// A load that took the bytes of another type for numbers, and where these then overflow.
bool loaded_other_numbers(const Finding& cause, const Finding& effect) {
  const FactValue* before = find_fact(cause, fact::kOldShape);
  const FactValue* now = find_fact(cause, fact::kNewShape);
  const bool is_type = before != nullptr && now != nullptr && *before == *now;
  return cause.id == "checkpoint-load" && is_type && cause.model == effect.model &&
         cause.rank == effect.rank && cause.step <= effect.step;
}

/// A divergence whose targets are below 0. Where hooks rested, its targets are looked at in the
/// step after its first NaN.
bool makes_nan_of_targets(const Finding& cause) {
  return cause.id == "loss-target-range" && cause.op == "aten::kl_div";
}

/// What made a gradient not finite; and, folded below it, the edge that its operator stood at.
bool is_why_nonfinite(const Finding& cause, const Finding& effect) {
  const bool of_step = cause.rank == effect.rank && cause.step == effect.step;
  const bool made =
      cause.id == "numeric-nonfinite-forward" || cause.id == "numeric-nonfinite-backward";
  if (makes_nan_of_targets(cause) && effect.id.starts_with("numeric-nonfinite-")) {
    return cause.rank == effect.rank && cause.step <= effect.step + 1;
  }
  if (effect.id == "numeric-nonfinite-gradient") return of_step && made;
  if (effect.id == "numeric-nonfinite-forward") {
    return spoilt_the_parameters(cause, effect) || grew_until(cause, effect) ||
           loaded_other_numbers(cause, effect);
  }
  const FactValue* op = find_fact(cause, fact::kForwardOp);
  const bool same_op = op != nullptr ? *op == FactValue(effect.op) : cause.op == effect.op;
  return effect.id == "numeric-risky-domain" && made && same_op && cause.rank == effect.rank;
}
}  // namespace

bool explains(const Finding& cause, const Finding& effect) {
  if (effect.id == "rank-first-failure") {
    return is_why_it_ended(cause, effect) || is_unfinished_reduction(cause, effect);
  }
  if (effect.id == "module-operator-failed") {
    return is_why_it_threw(cause, effect) || is_unfinished_reduction(cause, effect) ||
           is_why_it_refused_nan(cause, effect);
  }
  if (effect.id.starts_with("numeric-")) return is_why_nonfinite(cause, effect);
  if (effect.id == "memory-out-of-memory") return cause.id == "memory-growth";
  if (effect.id == "memory-growth") return cause.id == "autograd-graph-retained";
  if (cause.id == "optim-missing-parameter" && effect.id == "grad-missing") {
    return all_in(effect, fact::kParameters, cause, fact::kTwinPaths);
  }
  if (became_known(cause, effect)) return true;
  if (cause.model != effect.model) return false;
  if (effect.id == "device-mismatch") return is_why_it_stayed(cause, effect);
  if (cause.id == "autograd-cut") {
    return effect.id == "grad-missing" &&
           all_in(effect, fact::kParameters, cause, fact::kParameters);
  }
  if (effect.id == "clip-nonfinite-norm") {
    return made_the_norm(cause, effect) || spoilt_the_norm(cause, effect);
  }
  if (effect.id == "clip-always-active") return cause.id == "clip-before-unscale";
  if (cause.id.starts_with("optim-") && effect.id.starts_with("optim-")) {
    return is_why_none_steps(cause, effect);
  }
  if (cause.id == "module-trainable-changed") {
    return effect.id == "optim-missing-parameter" &&
           !is_fact_zero(cause, fact::kNotOptimizedCount) &&
           all_in(effect, fact::kParameters, cause, fact::kParameters);
  }
  if (cause.id == "module-replaced") return is_replacement_seen_as(cause, effect);
  if (cause.id != "module-unregistered") return false;
  if (effect.id == "checkpoint-load") return has_word(effect, fact::kCause, "incomplete");
  if (effect.id == "module-mode") return is_true(effect, fact::kUnregistered);
  return effect.id == "optim-empty" && effect.severity == Severity::kError;
}

}  // namespace ddpscope
