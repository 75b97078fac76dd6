#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "checks/run_state.h"

namespace ddpscope {

/// How the optimizers that hold a parameter leave it untrained.
enum class Lapse : std::uint8_t {
  kNone,          ///< one of them steps, or may do so yet
  kFollowed,      ///< the one that stepped it last gave way to one built later, over other members
  kAtRest,        ///< none has stepped for longer than ever before
  kNeverStepped,  ///< none ever has, while others have
};

struct Lapsed {
  Lapse how = Lapse::kNone;
  const OptimizerState* owner = nullptr;  ///< that stepped it last, or never
  const OptimizerState* other = nullptr;  ///< that steps, in its place or beside it
};

/// Parameters that get gradients in cycle after cycle, in which none of their optimizers steps.
class LapsedOwners {
 public:
  /// Before the tensors of a cycle are asked for, or of the end of the program.
  void begin(const RunState& state, bool at_exit);
  /// Once for each tensor with an owner.
  Lapsed of(const RunState& state, const TensorState& tensor);

 private:
  struct Unused {
    std::int64_t since_event = 0;
    std::int64_t cycles = 0;  ///< with a gradient, of those that were watched
  };
  const OptimizerState* successor_of(const RunState& state, const OptimizerState& owner);
  std::int64_t unused_cycles(const TensorState& tensor, const OptimizerState& owner);

  bool at_exit_ = false;
  std::int64_t last_cycle_ = 0;  ///< that was watched to its end
  bool is_any_idle_ = false;
  std::unordered_map<TensorId, Unused> unused_;
  std::map<OptimizerId, const OptimizerState*> successors_;  ///< as of this pass; null: none
};

/// What was built before any model was known may have stepped before as well.
bool is_built_beside_models(const RunState& state, const OptimizerState& optimizer);

/// Whether some optimizer that holds it has not begun yet, or not come to rest.
bool is_held(const RunState& state, const TensorState& tensor);

}  // namespace ddpscope
