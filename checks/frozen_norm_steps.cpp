#include "checks/frozen_norm_steps.h"

#include <utility>

#include "checks/target_text.h"

namespace ddpscope {

void FrozenNormSteps::ran(const TrainingOpEvent& event, const RunState& state) {
  const TensorState* statistics = state.tensor(event.statistics);
  if (statistics == nullptr || statistics->registrations.empty()) return;
  const Registration& at = statistics->registrations.front();
  Norm& norm = norms_
                   .try_emplace({at.model, at.module_path},
                                Norm{.first_step = event.at.step, .first_cycle = event.at.cycle})
                   .first->second;
  norm.with_grad |= event.grad_mode;
  norm.ran = true;
}

/// Under a guard it may have run once, to estimate statistics again: there each run is told.
void FrozenNormSteps::count(const ModuleModes::Mode* mode, Norm& norm) {
  const bool updates =
      mode != nullptr && mode->training && mode->parameters > 0 && mode->trainable == 0;
  const bool ran = std::exchange(norm.ran, false) || norm.with_grad;
  norm.updates = updates ? norm.updates + (ran ? 1 : 0) : 0;
}

/// The program writes its parameters, or may do so: before the layer runs it is loaded.
bool FrozenNormSteps::is_average(const ModuleModes::Place& place, const Norm& norm,
                                 const RunState& state) {
  if (is_written(state.tensors(), place, norm.first_step)) return true;
  const auto model = state.models().find(place.first);
  return !norm.with_grad && model != state.models().end() &&
         trained_twin(model->second, state) != nullptr;
}

std::map<ModelId, FrozenNorms> FrozenNormSteps::stepped(const ModuleModes& modes,
                                                        const RunState& state) {
  std::map<ModelId, FrozenNorms> updating;
  for (auto& [place, norm] : norms_) {
    const ModuleModes::Mode* mode = modes.find(place);
    const std::int64_t before = norm.updates;
    count(mode, norm);
    if (norm.updates != kNormSteps || before == kNormSteps) continue;
    if (!norm.with_grad && state.last_surveyed_cycle() <= norm.first_cycle) {
      --norm.updates;  // no survey has told yet who writes its parameters
      continue;
    }
    if (is_average(place, norm, state)) continue;
    if (state.declared(place.first, place.second, "intended")) continue;
    updating[place.first].paths.push_back(place.second);
    updating[place.first].parameters += mode->parameters;
  }
  return updating;
}

}  // namespace ddpscope
