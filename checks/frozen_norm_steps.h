#pragma once

#include <map>

#include "checks/mode_text.h"
#include "checks/module_modes.h"
#include "checks/run_state.h"
#include "model/op_event.h"

namespace ddpscope {

/// In how many optimizer steps in a row frozen normalisation layers were in training mode.
class FrozenNormSteps {
 public:
  static constexpr std::int64_t kNormSteps = 8;

  /// Batch norm ran in training mode.
  void ran(const TrainingOpEvent& event, const RunState& state);
  /// An optimizer stepped: the layers for which it was that many steps, by model.
  std::map<ModelId, FrozenNorms> stepped(const ModuleModes& modes, const RunState& state);
  void clear() { norms_.clear(); }

 private:
  struct Norm {
    std::int64_t first_step = 0;  ///< in which it ran
    std::int64_t first_cycle = 0;
    bool with_grad = false;    ///< at some time; told on survey steps only
    bool ran = false;          ///< since the last step
    std::int64_t updates = 0;  ///< steps in a row
  };

  static void count(const ModuleModes::Mode* mode, Norm& norm);
  static bool is_average(const ModuleModes::Place& place, const Norm& norm, const RunState& state);

  std::map<ModuleModes::Place, Norm> norms_;
};

}  // namespace ddpscope
