#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "checks/run_state.h"
#include "model/backward_event.h"

namespace ddpscope {

/// Gradients that one backward left, and that were applied together with those of a later one
/// though another optimizer stepped in between.
class ForeignGradients {
 public:
  /// What tells this from parameters that both losses are to train.
  enum class Sign : std::uint8_t {
    kAppliedTwice,  ///< the other optimizer holds them too
    kThrownAway,    ///< what the later backward left for the other optimizer is cleared unused
    kPassedBy,      ///< none: only that the other optimizer was trained through them
  };
  struct Applied {
    OptimizerId optimizer = 0;
    OptimizerId other = 0;  ///< that stepped in between
    Sign sign = Sign::kPassedBy;
    std::vector<TensorId> parameters = {};
    bool all = false;                ///< no other member has a gradient
    std::int64_t last_backward = 0;  ///< before the step
  };

  void add(const GradientEvent& event, const std::vector<OptimizerId>& owners);
  void backward_ended() { ++backward_; }
  void zero_grad(const OptimizerState& optimizer);
  /// What was so in 3 steps of one optimizer: of this one, or of another that waited for it.
  std::vector<Applied> step(const OptimizerStepEvent& event, const OptimizerState& optimizer);
  /// A closure runs backward within its steps.
  void forget(OptimizerId optimizer) { optimizers_.erase(optimizer); }
  void clear();

 private:
  struct Parameter {
    bool is_known = false;   ///< whether it was cleared was seen
    std::int64_t first = 0;  ///< backward since then; 0: none
    std::int64_t last = 0;
    std::int64_t place = 0;      ///< of its last gradient among all
    bool is_applied = false;     ///< since it was cleared
    OptimizerId applied_by = 0;  ///< 0: by several
    OptimizerId other = 0;       ///< stepped before another backward added to it
    bool is_behind = false;      ///< before that step its gradient came before all of the other's
  };
  /// The backwards that gave an optimizer gradients, between two of its steps.
  struct Reach {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t count = 0;
    std::int64_t place = 0;  ///< of the first gradient of the last one
    bool contains(std::int64_t backward) const;
  };
  struct Optimizer {
    Reach reach;                          ///< since its last step
    Reach before_step;                    ///< likewise, of that step
    std::int64_t stepped_at = 0;          ///< the backward that came next
    std::optional<Applied> pending = {};  ///< until the other optimizer steps
    OptimizerId other = 0;                ///< what was counted, as are those below
    Sign sign = Sign::kPassedBy;
    std::int64_t times = 0;
    std::int64_t clean = 0;  ///< steps in a row in which it was not so
  };
  void see(std::int64_t step);
  OptimizerId stepped_since(const Parameter& parameter,
                            const std::vector<OptimizerId>& owners) const;
  std::optional<Applied> mixed(const OptimizerState& optimizer) const;
  bool is_thrown_away(const OptimizerState& optimizer, std::int64_t last_backward) const;
  void decide(const OptimizerState& optimizer, std::vector<Applied>& regular);
  void count(Applied applied, std::vector<Applied>& regular);
  void apply(const OptimizerState& optimizer);

  std::int64_t last_step_ = 0;
  std::int64_t backward_ = 1;
  std::int64_t place_ = 0;
  std::uint64_t thread_ = 0;
  std::unordered_map<TensorId, Parameter> parameters_;
  std::map<OptimizerId, Optimizer> optimizers_;
};

}  // namespace ddpscope
