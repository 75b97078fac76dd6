#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// What an optimizer that stepped in the last `cycles` holds in place of parameters: as many of the
/// same shapes, none of which a backward reached since.
struct HeldCopy {
  const OptimizerState* optimizer = nullptr;  ///< null: there is none
  std::string model;                          ///< empty: they are registered nowhere
  std::vector<std::string> paths;             ///< of them in that
  bool was_registered = false;                ///< at some time
  bool is_gone = false;                       ///< the model that they were of
};
HeldCopy held_copy_of(const std::vector<const TensorState*>& parameters, const RunState& state,
                      std::int64_t cycles);

/// Whether these are all that the model trains, in several modules: another model runs in its
/// place.
bool are_whole_model(const std::vector<const TensorState*>& parameters, const RunState& state);

/// That the optimizer of a finding holds these.
void say_copy(const HeldCopy& copy, Finding& finding);

/// What to do where the optimizer holds one model and forward runs another.
std::vector<Fix> fixes_of_copy();

}  // namespace ddpscope
