#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checks/site_text.h"
#include "model/finding.h"
#include "model/value_event.h"

namespace ddpscope {

/// What a floating type can hold.
struct FloatType {
  std::string_view dtype;
  double max = 0;
  double smallest_normal = 0;
};
/// Null for a type that is none of float16, bfloat16, float32 and float64.
const FloatType* float_type(std::string_view dtype);

/// Which batch the step trained with, if it was seen.
void add_batch(const Stamp& at, const RunState& state, Finding& finding);

/// `NaN`, `Inf`, or `NaN or Inf` where there are both.
std::string kind_of(const ValueRange& values);
/// `3 of 65536 output elements are Inf`
std::string elements_text(const ValueRange& values, std::string_view noun);
/// As `place_in`; between two modules it is the deepest that holds both.
void place_between(const MadeIn& made, const RunState& state, Finding& finding);
/// ` in conv1 (model.cpp:88)`, ` after conv1`, of what is known. Adds the site `created`.
std::string ran_text(const MadeIn& made, const std::optional<Doing>& by, const RunState& state,
                     Finding& finding);
/// Whether what was not finite came with the statistics of other ranks.
bool is_of_other_ranks(const NonfiniteOutputEvent& event);
/// What the operator read, as far as it is known.
std::string inputs_text(const NonfiniteOutputEvent& event);
/// What to do about an operator that made it; `risky` is what the survey said of it, or null.
void add_operator_fixes(const NonfiniteOutputEvent& event, const RiskyInputEvent* risky,
                        Finding& finding);
/// Facts about how many elements are not finite.
void add_counts(const ValueRange& values, Finding& finding);
/// The same, of how many, and the fact `cause`.
void add_cause(const char* cause, const ValueRange& values, Finding& finding);

}  // namespace ddpscope
