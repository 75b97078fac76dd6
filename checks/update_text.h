#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checks/run_state.h"
#include "checks/update_window.h"
#include "model/finding.h"

namespace ddpscope {

/// `2 parameters by 0.5 of their size`
std::string change_text(std::int64_t parameters, double ratio);

/// Its members that have gradients.
std::vector<const TensorState*> trained_members(const OptimizerState& optimizer,
                                                const RunState& state);

/// The begin of a finding about all of these.
Finding about_optimizer(const OptimizerState& optimizer, const std::string& cause,
                        const RunState& state);

/// Why updates are of this size, and what helps; `first` of those that are told.
void explain_update(const std::string& cause, const UpdateWindows& windows,
                    const TensorState& first, const RunState& state, Finding& finding);

/// What the samples of such updates say.
void add_update_facts(const std::string& cause, const UpdateWindow& window,
                      const TensorState& first, Finding& finding);

}  // namespace ddpscope
