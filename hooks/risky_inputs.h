#pragma once

#include <ATen/record_function.h>

#include <optional>

#include "model/value_event.h"

namespace ddpscope {

/// What an operator that begins reads at the edge of its domain; all but `at`, `module` and
/// `output` is filled. None of an operator that has no edge, or that stays away from it.
std::optional<RiskyInputEvent> risk_of(const at::RecordFunction& function);

}  // namespace ddpscope
