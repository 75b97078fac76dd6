#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "checks/check.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
struct FieldWords {
  DigestField field;
  std::string_view key;
  std::string_view words;
};

// What is more exact stands first; `optimizers` covers types, and options of later groups.
constexpr auto kComparedFields = std::to_array<FieldWords>({
    {DigestField::kMembers, "members", "number of members"},
    {DigestField::kGroups, "groups", "number of parameter groups"},
    {DigestField::kLearningRate, "learning_rate", "learning rate"},
    {DigestField::kWeightDecay, "weight_decay", "weight decay"},
    {DigestField::kMomentum, "momentum", "momentum"},
    {DigestField::kState, "state", "state at the first step:"},
    {DigestField::kLossScale, "loss_scale", "loss scale"},
    {DigestField::kSkippedSteps, "skipped_steps", "number of skipped steps"},
    {DigestField::kOptimizerSteps, "optimizer_steps", "number of optimizer steps"},
    {DigestField::kOptimizers, "options", "options"},
});

/// Part of what `optimizers` is a hash of.
bool is_hashed(DigestField field) {
  using enum DigestField;
  return field == kGroups || field == kLearningRate || field == kWeightDecay || field == kMomentum;
}

/// The members are counted once, and do not change by themselves.
bool is_lasting(const DigestsDiffer& differ) {
  return differ.field == DigestField::kMembers || differ.field == DigestField::kGroups ||
         differ.consecutive >= 2;
}

std::vector<Fix> fixes_for_field(DigestField field, bool from_start) {
  using enum Applicability;
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
      return {
          {"build the optimizer of the same type, with the same options, on every rank", kSafe}};
    default:
      if (from_start) return {{"give all ranks one learning rate when they build it", kSafe}};
      return {{"all-reduce the metric that the scheduler sees before it sees it", kSafe},
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
  finding.why = "equal gradients give other weights on these ranks" + severity_words(cohort);
  finding.fixes = fixes_for_field(differ.field, differ.step <= 1);
  finding.facts = {{fact::kField, std::string(words.key)},
                   {fact::kMinorityRanks, as_fact(minority)},
                   {fact::kSinceStep, differ.step}};
  if (!is_hash) finding.facts.push_back({fact::kValuePerRank, per_side(differ.sides)});
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

/// rank-optimizer-differs; docs/checks/rank-optimizer-differs.md
class RankOptimizerDiffers final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.ranks.size() >= 2) look_at(cohort, findings);
    }
  }

 private:
  static void look_at(const Cohort& cohort, Findings& findings) {
    bool explained = false;  // what the hash of all options says is said already
    for (const FieldWords& words : kComparedFields) {
      const auto differ = std::ranges::find(cohort.digests, words.field, &DigestsDiffer::field);
      if (differ == cohort.digests.end() || !is_lasting(*differ)) continue;
      const bool is_hash = words.field == DigestField::kOptimizers;
      if (is_hash && explained) continue;
      const bool has_extra =
          words.field == DigestField::kSkippedSteps && std::ranges::any_of(differ->sides, is_extra);
      findings.push_back(has_extra ? describe_extra(*differ, cohort)
                                   : describe_field(*differ, words, cohort));
      explained |= is_hashed(words.field);
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_optimizer_differs() {
  return std::make_unique<RankOptimizerDiffers>();
}

}  // namespace ddpscope
