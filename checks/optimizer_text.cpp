#include "checks/optimizer_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/loss_factors.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
bool is_from_start(const DigestsDiffer& differ) {
  return differ.step <= 1 || differ.of_new_optimizer;
}

/// Another option of it differs since the same step.
bool is_one_of_several(const DigestsDiffer& differ, const Cohort& cohort) {
  return std::ranges::any_of(cohort.digests, [&differ](const DigestsDiffer& other) {
    const bool is_option =
        other.field == DigestField::kWeightDecay || other.field == DigestField::kMomentum;
    return is_option && other.field != differ.field && other.step == differ.step &&
           other.consecutive >= 2;
  });
}

std::vector<Fix> fixes_for_field(DigestField field, bool from_start, bool is_one_of_several) {
  using enum Applicability;
  const Fix alike = {"build the optimizer of the same type, with the same options, on every rank",
                     kSafe};
  if (field == DigestField::kLearningRate && from_start && is_one_of_several) return {alike};
  switch (field) {
    case DigestField::kMembers:
    case DigestField::kGroups:
      return {{"give the optimizer the same parameters in the same groups on every rank", kSafe}};
    case DigestField::kState:
      return {{"load the state of the optimizer on every rank, as the weights", kSafe},
              {"broadcast it from the rank that loaded it", kSafe}};
    case DigestField::kLossScale:
      return {
          {"reduce the flag that an Inf was found with a maximum over the ranks before the scale "
           "is changed",
           kSafe}};
    case DigestField::kSkippedSteps:
    case DigestField::kOptimizerSteps:
      return {
          {"reduce what decides whether the optimizer steps, as a flag that an Inf was found, "
           "with a maximum over the ranks",
           kSafe}};
    case DigestField::kWeightDecay:
    case DigestField::kMomentum:
    case DigestField::kOptimizers:
      return {alike};
    default:
      if (from_start) return {{"give all ranks one learning rate when they build it", kSafe}};
      return {{"step the scheduler on every rank, as often", kSafe},
              {"all-reduce the metric that a scheduler sees before it sees it", kLikely},
              {"broadcast the options of rank 0 to the other ranks", kLikely}};
  }
}

Finding describe_field(const DigestsDiffer& differ, const FieldWords& words, const Cohort& cohort) {
  const RankList minority = minority_of(differ.sides);
  Finding finding = finding_on(minority, differ.step);
  finding.severity = severity_in(cohort);
  finding.subject = words.words;
  finding.last_step = differ.last_step;
  finding.occurrences = std::max<std::int64_t>(differ.differing, 1);
  const bool is_hash = differ.field == DigestField::kOptimizers;
  finding.what = is_hash ? fmt::format(
                               "the type of an optimizer, an option as its second beta or "
                               "eps, or those of a later group differ between ranks since {}",
                               since_text(differ))
                         : fmt::format("{} {}, since {}", words.words, sides_text(differ.sides),
                                       since_text(differ));
  const bool is_of_several = is_one_of_several(differ, cohort);
  finding.why = "equal gradients give other weights on these ranks" + severity_words(cohort);
  if (differ.field == DigestField::kLearningRate && is_from_start(differ) && is_of_several) {
    finding.why += "; other options differ since then, too, as where the type is another one";
  }
  finding.fixes = fixes_for_field(differ.field, is_from_start(differ), is_of_several);
  finding.facts = {{fact::kField, std::string(words.key)},
                   {fact::kMinorityRanks, as_fact(minority)},
                   {fact::kSinceStep, differ.step}};
  if (!is_hash) finding.facts.push_back({fact::kValuePerRank, per_side(differ.sides)});
  return finding;
}

/// Ranks that took part in averages without a step.
Finding describe_left_out(const DigestsDiffer& differ, const FieldWords& words,
                          const Cohort& cohort) {
  Finding finding = describe_field(differ, words, cohort);
  finding.why =
      "the same averages fall into other steps of these ranks: some took part in averages and made "
      "no step with them" +
      severity_words(cohort);
  finding.fixes.insert(finding.fixes.begin(),
                       {"step on every rank that takes part in an average, also where it has no "
                        "data and brings zeros",
                        Applicability::kLikely});
  return finding;
}

bool is_extra(const RankSide& side) { return side.value.starts_with('-'); }

/// Steps that some made once more.
Finding describe_extra(DigestsDiffer differ, const Cohort& cohort) {
  constexpr FieldWords kExtra = {DigestField::kSkippedSteps, "extra_steps",
                                 "number of steps without a backward"};
  const auto extra = std::ranges::find_if(differ.sides, is_extra);
  for (RankSide& side : differ.sides) side.value = is_extra(side) ? side.value.substr(1) : "0";
  Finding finding = describe_field(differ, kExtra, cohort);
  finding.ranks = extra->ranks;
  finding.rank = extra->ranks.front();
  finding.why = "one gradient changed these weights twice, and later steps are of other batches" +
                severity_words(cohort);
  finding.fixes = {{"call step() once behind the last backward of a step, on every rank alike",
                    Applicability::kSafe}};
  return finding;
}
}  // namespace

Finding describe_difference(const DigestsDiffer& differ, const FieldWords& words,
                            const Cohort& cohort) {
  const bool has_extra =
      words.field == DigestField::kSkippedSteps && std::ranges::any_of(differ.sides, is_extra);
  if (has_extra) return describe_extra(differ, cohort);
  if (differ.by_calls) return describe_left_out(differ, words, cohort);
  Finding finding = describe_field(differ, words, cohort);
  const bool is_scale = words.field == DigestField::kLossScale;
  if (is_scale && loss_factors(differ, cohort) == LossFactors::kWeights) {
    describe_weights(differ, finding);
  }
  return finding;
}

}  // namespace ddpscope
