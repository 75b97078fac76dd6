#include "exchange/reduction_compare.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "exchange/averaged_values.h"
#include "exchange/owned_gradients.h"
#include "exchange/reduced_names.h"
#include "exchange/reduction_steps.h"
#include "exchange/step_comparison.h"
#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
using reductions::Step;
using reductions::StepComparison;
using reductions::Steps;

constexpr double kSameRatio = 0.02;

/// A scale that grows or backs off between steps in which it is known looks like another divisor.
struct LastScale {
  std::optional<double> ratio;

  void look_at(const StepComparison& comparison, bool is_known, ReductionStep& result) {
    if (!comparison.is_unscaled()) return;
    if (is_known) {
      ratio = result.ratio;
    } else if (!ratio || !is_near_ratio(*ratio, *result.ratio)) {
      result.ratio.reset();
    }
  }
  static bool is_near_ratio(double a, double b) {
    return std::abs(a - b) <= kSameRatio * std::abs(b);
  }
};

std::set<std::uint32_t> models_in(const Steps& steps) {
  std::set<std::uint32_t> models;
  for (const auto& [number, step] : steps) {
    for (const auto& [place, parameter] : step.parameters) models.insert(place.model);
  }
  return models;
}

constexpr std::size_t kLongestDelay = 4;

/// Whether a program steps with the mean of a step before. Then what its own step brought tells
/// nothing of it, also where some of it is nearly the same.
struct Overlap {
  std::vector<std::size_t> places;  ///< in Cohort::reductions
  std::size_t known = 0;
  std::size_t late = 0;

  void add(const ReductionStep& step, bool follows, std::size_t place) {
    places.push_back(place);
    known += follows;
    late += step.of_step_before > 0;
  }
  /// One step may have the gradients of another by chance.
  bool is_usual() const { return late > 0 && 2 * late >= known; }
};

/// What the calls of the step were, and what its parameters are called.
void add_names(ReducedNames& names, std::uint32_t model, const StepComparison& comparison,
               ReductionStep& result) {
  const std::int64_t number = result.step;
  names.tell_calls(model, result);
  if (result.differing > 0) result.first_differing = names.at(comparison.differing(), number);
  if (result.differing > 0 && result.differing < result.sampled) {
    std::vector<DifferingTensor> parted;
    for (const ReducedPlace& place : comparison.parted()) {
      const ReducedParameter one = names.at(place, number);
      parted.push_back({.model = one.model, .path = one.path});
    }
    result.differing_module = common_module(parted);
  }
  if (result.as_they_arrived == result.sampled && result.calls > 0) {
    result.may_be_copies = names.may_be_copied(comparison.arrived(), number);
    result.of_few_numbers = names.are_of_few_numbers(model, number);
  }
  if (result.of_owner > 0) result.first_of_owner = names.at(comparison.of_owner(), number);
  if (result.lost > 0) result.first_lost = names.at(comparison.lost(), number);
  if (result.undivided > 0) result.first_undivided = names.at(comparison.undivided(), number);
  if (result.noise > 0) result.worst = names.at(comparison.residual(), number);
}

/// A call whose result came back to another model is no copy of this one's gradients.
void leave_calls_to_others(std::vector<ReductionStep>& steps) {
  std::map<std::int64_t, std::int64_t> models_back;
  for (const ReductionStep& step : steps) {
    models_back[step.step] += step.calls > 0 && step.as_they_arrived == 0 && step.differing == 0;
  }
  for (ReductionStep& step : steps) step.may_be_copies &= step.calls > models_back[step.step];
}

struct Compared {
  std::size_t ranks = 0;
  bool complete = false;
};

/// Two models may step in turn: what lasts is told by the steps of one.
void compare_steps(const Steps& steps, const Compared& of, ReducedNames& names,
                   std::vector<ReductionStep>& results) {
  for (const std::uint32_t model : models_in(steps)) {
    std::vector<const Step*> before;
    Overlap overlap;
    LastScale scale;
    std::int64_t last = 0;
    for (const auto& [number, step] : steps) {
      const bool follows = !before.empty() && number == last + 1;
      if (!follows) before.clear();
      StepComparison comparison(number, step, of.ranks, of.complete);
      ReductionStep result = comparison.run(model, before);
      if (before.size() == kLongestDelay) before.erase(before.begin());
      before.push_back(&step);
      last = number;
      if (result.sampled == 0) continue;
      scale.look_at(comparison, step.scale_is_known, result);
      add_names(names, model, comparison, result);
      overlap.add(result, follows, results.size());
      results.push_back(std::move(result));
    }
    if (!overlap.is_usual()) continue;
    for (const std::size_t place : overlap.places) results[place].forget_values();
  }
}
}  // namespace

void compare_reductions(const RingList& rings, bool complete, Cohort& cohort) {
  if (rings.size() < 2 || rings.size() < cohort.ranks.size()) return;
  if (cohort.lists_differ) return;  // the same place may be another parameter
  Steps steps = reductions::steps_of(rings, cohort);
  ReducedNames names(rings);
  for (auto& [number, step] : steps) step.of_gradients = names.may_be_of_gradients(number);
  const Compared of{.ranks = rings.size(), .complete = complete};
  compare_steps(steps, of, names, cohort.reductions);
  leave_calls_to_others(cohort.reductions);
  cohort.averages = cohort.averages || averages_by_value(cohort);
  if (complete) compare_steps(reductions::owned_steps(rings, steps), of, names, cohort.owned);
}

}  // namespace ddpscope
