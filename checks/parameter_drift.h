#pragma once

#include <string>

#include "model/rank_compare_event.h"

namespace ddpscope {

inline constexpr char kByGradient[] = "gradient";
inline constexpr char kByLoad[] = "load";

/// No gradient trains any of those that are known to differ.
bool are_frozen(const ValuesDiffer& values);

/// The step in which ranks began to differ, where it is known better than by their parameters:
/// those are compared now and then, and gradients that differ make them differ.
std::int64_t first_bad_step(const ValuesDiffer& values, const Cohort& cohort);

/// They differ since they are there: before the first step, or when they were registered later.
inline bool is_of_start(const ValuesDiffer& values) { return values.step == 0 || values.are_new; }

/// They differ before the first step although broadcasts as large as all that is trained had run,
/// and are of those.
bool were_broadcast(const ValuesDiffer& values, const Cohort& cohort);

/// Where only some ranks read parameters from an archive since they were equal, or null.
const LoadedOnSome* load_on_some(const ValuesDiffer& values, const Cohort& cohort);

/// The optimizers stepped with equal gradients in each step since trained parameters were equal.
bool had_equal_gradients(const ValuesDiffer& values, const Cohort& cohort);

/// They did, nothing else is known to differ, and the parameters do by what rounding leaves.
bool is_rounding_of(const ValuesDiffer& values, const Cohort& cohort);

/// Later they were equal once more.
bool are_equal_again(const ValuesDiffer& values, const Cohort& cohort);

/// What the ranks differed in before trained parameters did; empty if nothing was seen.
std::string differing_input(const ValuesDiffer& values, const Cohort& cohort);

/// Whether ranks had made different numbers of steps by then: what has one number is no longer of
/// one step.
bool are_apart(const Cohort& cohort, std::int64_t step);

}  // namespace ddpscope
