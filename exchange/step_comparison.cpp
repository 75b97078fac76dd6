#include "exchange/step_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "exchange/sides.h"

namespace ddpscope::reductions {
namespace {
constexpr double kNotLinear = 1e-2;
constexpr double kSameFactor = 0.02;  // of all parameters
constexpr double kClearly = 1e-3;     // beside the largest gradient

bool is_factor(double value, double target) {
  return std::abs(value - target) <= kSameFactor * std::abs(target);
}

/// Nothing but the number of its backwards divides the loss.
bool is_plain_loss(const Step& step) {
  return step.loss_scale == 0 || is_factor(step.loss_scale, 1) ||
         is_factor(step.loss_scale * static_cast<double>(step.backwards), 1);
}

bool is_of_all_ranks(const std::map<std::string, RankList>& values, std::size_t ranks) {
  return values.size() == 1 && values.begin()->second.size() == ranks;
}

bool is_kept_by_owner(const Parameter& parameter) {
  return parameter.is_owned && parameter.kept_on > 0;
}

/// How far the ranks are from their mean.
double spread_of(const Parameter& parameter) {
  const auto ranks = static_cast<double>(parameter.ranks);
  const double of_mean = dot(parameter.stepped, parameter.stepped) / (ranks * ranks);
  const double variance = parameter.stepped_dots / ranks - of_mean;
  return of_mean > 0 ? std::sqrt(std::max(variance, 0.0) / of_mean) : 0;
}
}  // namespace

StepComparison::StepComparison(std::int64_t number, const Step& step, std::size_t ranks,
                               bool complete)
    : step_(step), ranks_(ranks), complete_(complete) {
  result_.step = number;
  result_.calls = step.calls;
  if (step.calls > 0) result_.silent = step.silent;
  result_.backwards = step.backwards;
  std::size_t counted = 0;
  for (const auto& [backwards, of] : step.backwards_on) counted += of.size();
  result_.is_counted = counted == ranks;
  if (is_of_all_ranks(step.factors, ranks)) {
    result_.weight = std::strtod(step.factors.begin()->first.c_str(), nullptr);
  }
  result_.divides_by_period = step.divides_by_period;
  result_.second_order = step.second_order;
  result_.reduces_last = step.reduce_last >= ranks;
  // What is stepped with came out of a collective that was issued before the last backward.
  is_earlier_ = step.calls > 0 && step.reduce_last == 0;
}

ReductionStep StepComparison::run(std::uint32_t model, std::span<const Step* const> before) {
  for (const auto& [place, parameter] : step_.parameters) {
    if (place.model != model || parameter.ranks != ranks_ || !parameter.is_finite) continue;
    if (parameter.is_summed && parameter.last.norms < kNoNorm) continue;
    ++result_.sampled;
    if (parameter.is_as_it_arrived) {
      arrived_.push_back(place);
      result_.grew_after += parameter.grew_after;
    }
    brought_by_all_ += parameter.brought == ranks_;
    if (parameter.differs) add_differing(place, parameter);
    if (!parameter.differs && !parameter.is_owned && parameter.is_summed &&
        parameter.kept_on == 1 && parameter.brought == ranks_) {
      ++result_.of_one_rank;
      result_.that_rank = parameter.kept_by;
    }
    if (parameter.is_weighed) {
      ++result_.not_linear;
    } else if (is_lost(parameter)) {
      if (result_.lost++ == 0) lost_ = place;
    } else if (complete_ && parameter.is_summed && (!is_earlier_ || is_kept_by_owner(parameter))) {
      add_to_sum(place, parameter, before);
    }
  }
  // A program that drops a step may clear all of them.
  if (result_.lost == result_.sampled) result_.lost = 0;
  result_.as_they_arrived = std::ssize(arrived_);
  if (result_.differing > 0 && step_.factors.size() > 1 && differ_by_factors_) {
    result_.factors = as_sides(step_.factors);
  }
  if (result_.differing > 0 && step_.backwards_on.size() > 1) {
    result_.backwards_per_rank = as_sides(step_.backwards_on);
  }
  find_ratio();
  find_divisor();
  return std::move(result_);
}

// A sum may be divided by the number of parts that it has, of all ranks: rows, backwards, or what
// else each rank has as many of.
void StepComparison::find_divisor() {
  constexpr double kWhole = 2e-2;
  if (!result_.ratio.has_value() || is_unscaled_ || !is_plain_loss(step_)) return;
  if (*result_.ratio <= 0 || !is_of_all_ranks(step_.backwards_on, ranks_)) return;
  const auto ranks = static_cast<std::int64_t>(ranks_);
  const double quotient = static_cast<double>(ranks) / *result_.ratio;
  const bool has_rows = step_.least_rows == step_.most_rows && quotient < step_.least_rows;
  if (!has_rows || quotient < 1.5) return;
  const auto divisor = static_cast<std::int64_t>(std::llround(quotient));
  const bool is_whole = std::abs(quotient - static_cast<double>(divisor)) <= kWhole;
  const bool is_of_parts =
      divisor % ranks == 0 || (step_.backwards > 1 && divisor % step_.backwards == 0);
  if (is_whole && !is_of_parts) result_.divisor = divisor;
}

void StepComparison::find_ratio() {
  // A rank without data brings zeros, and the others divide by their number.
  if (brought_by_all_ == 0) result_.undivided = 0;
  if (least_ > most_ || brought_by_all_ == 0) return;
  if (most_ - least_ > kSameFactor * std::abs(most_)) {
    if (!are_sums_or_means_ || step_.divides_loss) result_.undivided = 0;
    return;
  }
  result_.undivided = 0;
  result_.ratio = (least_ + most_) / 2;
  const auto ranks = static_cast<double>(ranks_);
  if (step_.divides_loss && is_factor(*result_.ratio, ranks)) result_.ratio = 1;
  // A loss was scaled up, and its gradients down by as much after they were reduced.
  const double unscaled = *result_.ratio * step_.loss_scale;
  const bool is_told = std::ranges::any_of(std::array{1.0, ranks, 1 / ranks}, [&](double factor) {
    return is_factor(unscaled, factor);
  });
  is_unscaled_ = is_told && step_.loss_scale > ranks * ranks;
  if (is_unscaled_) result_.ratio = unscaled;
}

void StepComparison::add_differing(const ReducedPlace& place, const Parameter& parameter) {
  const bool by_part = parameter.of_parts.size() > 1 && !parameter.differs_in_part;
  result_.differs_by_part = by_part && (result_.differing == 0 || result_.differs_by_part);
  // What no call reached tells more than what rounding made of those that it did.
  const bool is_untouched = parameter.is_as_it_arrived && !differs_untouched_;
  if (result_.differing++ == 0 || is_untouched) differing_ = place;
  parted_.push_back(place);
  differs_untouched_ |= parameter.is_as_it_arrived;
  result_.mixed += parameter.was_mixed;
  differ_by_factors_ &= !parameter.differs_unweighed;
  result_.largest_difference = std::max(result_.largest_difference, spread_of(parameter));
}

// By its values, whatever the calls are that brought them there: each rank had another gradient of
// its own, and now all have the same multiple of their sum.
void StepComparison::add_averaged(const Parameter& parameter, bool is_linear) {
  const bool is_of_all = parameter.brought == ranks_ && !parameter.arrived_alike;
  if (parameter.differs || parameter.kept_on > 0 || !is_of_all) return;
  ++(is_linear ? result_.averaged : result_.combined);
}

// Every rank brought it, and every rank steps with 0. Where calls were of copies: what a program
// does to the gradient that it reduced is meant.
bool StepComparison::is_lost(const Parameter& parameter) const {
  const bool is_known = complete_ && parameter.is_summed && !is_earlier_ && step_.calls > 0;
  if (!is_known || step_.of_gradients || parameter.brought < ranks_ || parameter.differs) {
    return false;
  }
  double most = 0;
  for (const auto& [place, other] : step_.parameters) most = std::max(most, other.last.norms);
  return parameter.stepped_dots == 0 && parameter.last.norms > kClearly * most;
}

// Of what is a multiple of the sum, nothing is left. The multiple may be another one for each
// parameter, as where layers are clipped by themselves. A program that clears gradients between
// its backwards either keeps what it had elsewhere, and adds it, or drops it. What it makes of what
// it keeps, as a clip of each micro-batch or noise, is not known: where it sends no gradient
// itself, nothing is said. One that overlaps its collectives with the next backward steps with the
// mean of a step before.
void StepComparison::add_to_sum(const ReducedPlace& place, const Parameter& parameter,
                                std::span<const Step* const> before) {
  auto best = fit(parameter.last, parameter.after, ranks_);
  const auto whole =
      parameter.was_cleared ? fit(parameter.total, parameter.after, ranks_) : std::nullopt;
  if (whole.has_value() && (!best.has_value() || whole->noise < best->noise)) best = whole;
  if (!best.has_value()) return;
  const double after =
      std::sqrt(dot(parameter.after, parameter.after)) / static_cast<double>(ranks_);
  const bool is_linear = best->residual <= kNotLinear * after;
  const auto is_of_that = [&](const Step* step) {
    return is_of(*step, place, parameter, kNotLinear * after);
  };
  if (!is_linear && std::ranges::any_of(before, is_of_that)) {
    ++result_.of_step_before;
    return;
  }
  if (!is_linear && parameter.is_owned && !parameter.was_mixed) {
    if (step_.is_parted && result_.of_owner++ == 0) of_owner_ = place;
    return;
  }
  if (is_earlier_) return;
  const bool is_own_sum = parameter.was_cleared && !step_.of_gradients;
  if ((is_own_sum || parameter.is_of_own_count) && !is_linear) return;
  add_averaged(parameter, is_linear);
  if (!best->cancels) {
    least_ = std::min(least_, best->ratio);
    most_ = std::max(most_, best->ratio);
    const bool is_sum = is_factor(best->ratio, static_cast<double>(ranks_));
    are_sums_or_means_ &= is_factor(best->ratio, 1) || (is_sum && parameter.brought == ranks_);
    if (is_sum && result_.undivided++ == 0) undivided_ = place;
  }
  result_.not_linear += !is_linear;
  if (is_own_sum || best->noise <= result_.noise) return;
  result_.noise = best->noise;
  result_.residual = after > 0 ? best->residual / after : 0;
  residual_ = place;
}

/// Whether it is the mean of what arrived in that step.
bool StepComparison::is_of(const Step& before, const ReducedPlace& place,
                           const Parameter& parameter, double limit) const {
  const auto found = before.parameters.find(place);
  if (found == before.parameters.end() || found->second.ranks != ranks_) return false;
  const auto was = fit(found->second.last, parameter.after, ranks_);
  return was.has_value() && was->residual <= limit && is_factor(was->ratio, 1);
}

}  // namespace ddpscope::reductions
