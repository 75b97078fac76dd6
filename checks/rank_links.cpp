#include "checks/rank_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "checks/cause_links.h"
#include "checks/epoch_forecast.h"
#include "checks/fact_words.h"
#include "checks/failure_links.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
/// In one group the order of calls decides, else the order of steps.
bool is_before(const Finding& cause, const Finding& effect) {
  const FactValue* group = find_fact(cause, fact::kGroup);
  const FactValue* other = find_fact(effect, fact::kGroup);
  if (group == nullptr || other == nullptr || *group != *other) return cause.step <= effect.step;
  const FactValue* seq = find_fact(cause, fact::kSeq);
  const FactValue* later = find_fact(effect, fact::kSeq);
  if (seq == nullptr || later == nullptr) return cause.step <= effect.step;
  const auto* first = std::get_if<std::int64_t>(seq);
  const auto* second = std::get_if<std::int64_t>(later);
  return first != nullptr && second != nullptr && *first <= *second;
}

bool is_strictly_before(const Finding& cause, const Finding& effect) {
  return cause.step < effect.step;
}

bool is_same_or_next_step(const Finding& cause, const Finding& effect) {
  return cause.step <= effect.step && effect.step <= cause.step + 1;
}

bool always(const Finding&, const Finding&) { return true; }

/// A model that one rank has beside that of all is a note, and explains nothing about that.
bool is_as_severe(const Finding& cause, const Finding& effect) {
  return cause.severity >= effect.severity;
}
bool is_before_and_as_severe(const Finding& cause, const Finding& effect) {
  return is_before(cause, effect) && is_as_severe(cause, effect);
}

/// What was frozen on some ranks is compared a step later than the members that follow from it.
bool is_why_options_differ(const Finding& cause, const Finding& effect) {
  const bool is_of_flags =
      has_word(cause, fact::kCause, "trainable") &&
      (has_word(effect, fact::kField, "members") || has_word(effect, fact::kField, "groups"));
  const bool is_before_it = is_of_flags ? cause.step <= effect.step + 1 : is_before(cause, effect);
  return is_before_it && is_as_severe(cause, effect);
}

/// Replicas that began equal and parted later.
bool is_drift(const Finding& cause, const Finding& effect) {
  return cause.step <= effect.step && !has_word(effect, fact::kCause, "init_not_synced");
}

bool is_drift_of_as_severe(const Finding& cause, const Finding& effect) {
  return is_drift(cause, effect) && is_as_severe(cause, effect);
}

/// A note is no reason of what an average of the weights should have mended. Where several models
/// step in turn, gradients are compared a few steps later than what they change.
bool is_drift_as_severe(const Finding& cause, const Finding& effect) {
  constexpr std::int64_t kInTurn = 2;
  const bool is_before = cause.step <= effect.step + kInTurn && is_drift(effect, effect);
  return cause.severity >= effect.severity && is_before;
}

/// Groups that sum up among themselves, and divide by the number of all ranks.
bool is_of_parts(const Finding& cause, const Finding& effect) {
  return has_word(cause, fact::kCause, "split") &&
         has_word(effect, fact::kCause, "divided_twice") && is_as_severe(cause, effect);
}

/// Gradients that a Reducer waited for: it averaged none of that step.
bool is_of_reducer(const Finding& cause, const Finding& effect) {
  const FactValue* present = find_fact(cause, fact::kReducerPresent);
  return present != nullptr && *present == FactValue(true) && is_drift(cause, effect);
}

/// The rank that nobody sees again: its Reducer waits for gradients, and sends nothing.
bool is_of_silent_reducer(const Finding& cause, const Finding& effect) {
  return is_of_reducer(cause, effect) && lists(effect, fact::kSuspectRanks, cause.rank);
}

/// The missing gradients are among those that ranks differ in.
bool is_about_its_gradients(const Finding& cause, const Finding& effect) {
  const FactValue* value = find_fact(effect, fact::kParameters);
  const auto* missing = value == nullptr ? nullptr : std::get_if<std::vector<FactScalar>>(value);
  return missing != nullptr && !missing->empty() && cause.model == effect.model &&
         std::ranges::all_of(*missing, [&cause](const FactScalar& path) {
           return lists(cause, fact::kParameters, path);
         });
}

/// What single ranks say of a pattern follows from what makes it another one on each rank.
bool is_of_all_ranks(const Finding& cause, const Finding& effect) {
  const bool is_over_ranks = find_fact(cause, fact::kRankPatterns) != nullptr;
  return is_over_ranks && find_fact(effect, fact::kRankPatterns) == nullptr;
}

/// What became trainable and is in no collective is not reduced.
bool is_left_out(const Finding& cause, const Finding& effect) {
  const FactValue* count = find_fact(cause, fact::kNotAveragedCount);
  const FactValue* path = find_fact(effect, fact::kFirstPath);
  const auto* first = path == nullptr ? nullptr : std::get_if<std::string>(path);
  return count != nullptr && *count != FactValue(std::int64_t{0}) && first != nullptr &&
         cause.model == effect.model && cause.step <= effect.step &&
         lists(cause, fact::kParameters, *first);
}

/// The rank that nobody sees again had issued none of the collectives of an earlier step.
bool is_of_silent_rank(const Finding& cause, const Finding& effect) {
  const FactValue* value = find_fact(effect, fact::kSuspectRanks);
  const auto* suspects = value == nullptr ? nullptr : std::get_if<std::vector<FactScalar>>(value);
  return suspects != nullptr && !suspects->empty() && cause.step <= effect.step &&
         std::ranges::all_of(*suspects, [&cause](const FactScalar& rank) {
           return lists(cause, fact::kSilentRanks, rank);
         });
}

/// A collective that threw on a rank because the others issued another one or none.
bool is_failed_call(const Finding& cause, const Finding& effect) {
  return is_same_or_next_step(cause, effect) && effect.op.starts_with("c10d::");
}

/// The same, or a batch norm whose ranks exchanged different layers.
bool is_failed_norm(const Finding& cause, const Finding& effect) {
  const bool is_norm = effect.op == "aten::batch_norm" && is_same_or_next_step(cause, effect);
  return is_norm || is_failed_call(cause, effect);
}

/// What a synchronised batch norm brought from a rank in which it began.
bool is_from_that_rank(const Finding& cause, const Finding& effect) {
  constexpr std::string_view kOther = "other_rank";
  return has_word(effect, fact::kCause, kOther) && !has_word(cause, fact::kCause, kOther) &&
         is_same_or_next_step(cause, effect) &&
         std::ranges::find(effect.ranks, cause.rank) == effect.ranks.end();
}

/// Options of one optimizer, as where another type of it was built: the first of them tells.
bool is_of_one_optimizer(const Finding& cause, const Finding& effect) {
  const bool is_rate = has_word(cause, fact::kField, "learning_rate");
  const bool is_decay = has_word(cause, fact::kField, "weight_decay");
  const bool follows = has_word(effect, fact::kField, "momentum") ||
                       (is_rate && has_word(effect, fact::kField, "weight_decay"));
  return (is_rate || is_decay) && follows && cause.step == effect.step;
}

/// What is not finite on all ranks, and one of them left out the step: the others step with it, and
/// read it in their next forward.
bool is_of_skip(const Finding& cause, const Finding& effect) {
  if (!has_word(cause, fact::kField, "skipped_steps")) return false;
  const bool spreads = has_word(effect, fact::kCause, "after_averaging") ||
                       has_word(effect, fact::kCause, "other_rank");
  if (spreads) return effect.step == cause.step;
  return has_word(effect, fact::kCause, "parameter") && effect.step == cause.step + 1;
}

struct RankLink {
  std::string_view cause;
  std::string_view effect;
  bool (*holds)(const Finding& cause, const Finding& effect);
};

// The nearest cause of an effect stands first.
constexpr auto kLinks = std::to_array<RankLink>({
    {"collective-hang", "rank-first-failure", is_why_a_rank_failed},
    {"collective-mismatch", "rank-first-failure", is_why_a_rank_failed},
    {"norm-syncbn-calls-differ", "rank-first-failure", is_why_a_rank_failed},
    {"collective-multi-tensor", "rank-first-failure", is_refused_list},
    {"collective-mismatch", "collective-hang", is_before},
    {"norm-syncbn-calls-differ", "collective-hang", is_before},
    {"rank-first-failure", "collective-hang", is_why_a_rank_is_gone},
    {"rank-step-lag", "collective-hang", is_before},
    {"grad-unused-rank-differs", "collective-hang", is_same_or_next_step},
    {"rank-model-differs", "collective-hang", is_before},
    {"grad-not-reduced", "collective-hang", is_of_silent_rank},
    {"grad-missing", "collective-hang", is_of_silent_reducer},
    {"grad-unused-rank-differs", "collective-mismatch", is_same_or_next_step},
    {"rank-step-lag", "collective-mismatch", is_strictly_before},
    {"rank-model-differs", "collective-mismatch", is_before},
    {"rank-model-differs", "norm-syncbn-calls-differ", always},
    {"rank-first-failure", "rank-step-lag", is_why_a_rank_lags},
    {"collective-mismatch", "rank-step-lag", is_before},
    {"norm-syncbn-calls-differ", "rank-step-lag", is_before},
    {"grad-unused-rank-differs", "rank-step-lag", is_before},
    {"rank-model-differs", "grad-unused-rank-differs", is_before_and_as_severe},
    {"rank-optimizer-differs", "rank-parameters-differ", is_drift},
    {"grad-unused-rank-differs", "rank-parameters-differ", is_drift_of_as_severe},
    {"grad-missing", "grad-not-reduced", is_of_reducer},
    {"collective-mismatch", "grad-not-reduced", is_before},
    {"collective-multi-tensor", "grad-not-reduced", is_before},
    {"rank-model-differs", "grad-not-reduced", is_as_severe},
    {"rank-step-lag", "grad-not-reduced", is_before},
    {"grad-unused-rank-differs", "grad-not-reduced", is_before_and_as_severe},
    {"grad-not-reduced", "grad-reduced-wrong-scale", is_of_parts},
    {"collective-mismatch", "grad-reduced-wrong-scale", is_before},
    {"collective-multi-tensor", "grad-reduced-wrong-scale", is_before},
    {"rank-model-differs", "grad-reduced-wrong-scale", is_as_severe},
    {"module-trainable-changed", "grad-not-reduced", is_left_out},
    {"grad-accumulation-unsynced", "grad-accumulation-unsynced", is_of_all_ranks},
    {"grad-accumulation-unsynced", "grad-not-reduced", is_before},
    {"grad-used-while-reducing", "grad-not-reduced", is_before},
    {"grad-used-while-reducing", "grad-reduced-wrong-scale", is_before},
    {"clip-before-reduce", "grad-not-reduced", is_before},
    {"clip-before-reduce", "grad-reduced-wrong-scale", is_before},
    {"autograd-ready-twice", "grad-reduced-wrong-scale", is_before},
    {"autograd-ready-twice", "grad-not-reduced", is_before},
    {"grad-not-reduced", "rank-parameters-differ", is_drift_as_severe},
    {"grad-accumulation-unsynced", "rank-parameters-differ", is_drift},
    {"grad-used-while-reducing", "rank-parameters-differ", is_drift},
    {"clip-before-reduce", "rank-parameters-differ", is_drift},
    {"grad-reduced-wrong-scale", "rank-parameters-differ", is_drift},
    {"numeric-nonfinite-forward", "numeric-nonfinite-forward", is_from_that_rank},
    {"grad-missing", "rank-parameters-differ", is_of_reducer},
    {"collective-mismatch", "rank-parameters-differ", is_drift},
    {"rank-step-lag", "rank-parameters-differ", is_drift},
    {"rank-model-differs", "rank-parameters-differ", is_as_severe},
    {"rank-model-differs", "rank-buffers-differ", is_as_severe},
    {"rank-model-differs", "rank-optimizer-differs", is_why_options_differ},
    {"rank-step-lag", "rank-optimizer-differs", is_before},
    {"rank-optimizer-differs", "rank-optimizer-differs", is_of_one_optimizer},
    {"rank-optimizer-differs", "numeric-nonfinite-gradient", is_of_skip},
    {"rank-optimizer-differs", "numeric-nonfinite-forward", is_of_skip},
    {"grad-unused-rank-differs", "grad-missing", is_about_its_gradients},
    {"collective-hang", "module-operator-failed", is_failed_call},
    {"collective-mismatch", "module-operator-failed", is_failed_call},
    {"norm-syncbn-calls-differ", "module-operator-failed", is_failed_norm},
});

bool leads_to(const Finding& finding, const Finding& wanted, const std::vector<Finding*>& all) {
  const Finding* at = &finding;
  for (std::size_t i = 0; i < all.size() && at != nullptr; ++i) {
    if (at->fingerprint == wanted.fingerprint) return true;
    if (at->caused_by.empty()) return false;
    const auto next = std::ranges::find(all, at->caused_by, &Finding::fingerprint);
    at = next == all.end() ? nullptr : *next;
  }
  return false;
}

void link(Finding& cause, Finding& effect) {
  effect.caused_by = cause.fingerprint;
  effect.causal_role = CausalRole::kCascade;
  if (cause.caused_by.empty()) cause.causal_role = CausalRole::kInitiating;
  if (effect.id == "rank-first-failure") {
    effect.why = fmt::format("see {} of rank {}", cause.id, cause.rank);
    effect.fixes = {{fmt::format("mend what {} tells of", cause.id), Applicability::kLikely}};
  }
}

bool may_explain(const Finding& cause) { return !cause.suppressed && !is_forecast(cause); }

using Explains = bool (*)(const Finding&, const Finding&);

void link_effect(Finding& effect, const std::vector<Finding*>& all, Explains holds) {
  for (Finding* cause : all) {
    if (cause == &effect || !may_explain(*cause) || !holds(*cause, effect)) continue;
    if (leads_to(*cause, effect, all)) continue;
    return link(*cause, effect);
  }
}
}  // namespace

bool explains_over_ranks(const Finding& cause, const Finding& effect) {
  return !is_forecast(cause) && std::ranges::any_of(kLinks, [&](const RankLink& row) {
    return row.cause == cause.id && row.effect == effect.id && row.holds(cause, effect);
  });
}

void link_over_ranks(const std::vector<Finding*>& findings) {
  for (Finding* effect : findings) {
    if (effect->caused_by.empty() && effect->id == "rank-first-failure") {
      link_effect(*effect, findings, explains);
    }
  }
  for (const RankLink& row : kLinks) {
    for (Finding* effect : findings) {
      const bool is_open = effect->caused_by.empty() && !is_forecast(*effect);
      if (effect->id != row.effect || !is_open) continue;
      for (Finding* cause : findings) {
        const bool fits = cause != effect && may_explain(*cause) && cause->id == row.cause &&
                          row.holds(*cause, *effect) && !leads_to(*cause, *effect, findings);
        if (!fits) continue;
        link(*cause, *effect);
        break;
      }
    }
  }
}

}  // namespace ddpscope
