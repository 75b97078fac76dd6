#include "checks/loss_factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "checks/rank_sides.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;

double number_in(const RankSide& side) {
  double number = 0;
  std::from_chars(side.value.data(), side.value.data() + side.value.size(), number);
  return number;
}

/// All ranks step with one multiple of the sum of what arrived.
bool is_plain_sum(const ReductionStep& step) {
  return step.calls > 0 && step.differing == 0 && step.not_linear == 0 && step.ratio.has_value();
}

/// As from weights that a program chose: with equal ones it would be the mean.
bool is_divided_by_all(const ReductionStep& step, const DigestsDiffer& differ) {
  constexpr double kSame = 0.01;
  double ranks = 0;
  double sum = 0;
  for (const RankSide& side : differ.sides) {
    ranks += static_cast<double>(side.ranks.size());
    sum += static_cast<double>(side.ranks.size()) * number_in(side);
  }
  return std::abs(*step.ratio * sum - ranks) <= kSame * ranks;
}
}  // namespace

LossFactors loss_factors(const DigestsDiffer& differ, const Cohort& cohort) {
  std::int64_t sums = 0;
  std::int64_t weighted = 0;
  for (const ReductionStep& step : cohort.reductions) {
    if (step.step < differ.step || step.step > differ.last_step) continue;
    if (step.differing > 0) return LossFactors::kScales;
    if (!is_plain_sum(step)) continue;
    ++sums;
    weighted += is_divided_by_all(step, differ);
  }
  if (sums < 2) return LossFactors::kScales;
  return 2 * weighted > sums ? LossFactors::kWeightedMean : LossFactors::kWeights;
}

void describe_weights(const DigestsDiffer& differ, Finding& finding) {
  const auto [least, most] = std::ranges::minmax_element(differ.sides, {}, number_in);
  finding.what =
      fmt::format("loss multiplied by {}, since {}", sides_text(differ.sides), since_text(differ));
  finding.why = fmt::format(
      "nothing divides the factor out of the averaged gradients, with which all of these ranks "
      "step: a sample of {} weighs {:.3g} times as much as one of {}",
      rank_words(most->ranks), number_in(*most) / number_in(*least), rank_words(least->ranks));
  finding.fixes = {
      {"multiply the loss by one number on all ranks", kLikely},
      {"where weights are meant: divide the sum of the gradients by the sum of the weights of all "
       "ranks",
       kNeedsDecision}};
}

}  // namespace ddpscope
