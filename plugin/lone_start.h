#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "checks/run_state.h"
#include "model/collective_event.h"
#include "model/step_digest.h"
#include "plugin/model_tensors.h"

namespace ddpscope {

/// Finds the steps that a rank made alone before it trained with others, as to warm up: those
/// before a broadcast of as many elements as it trains, which the first average of gradients
/// follows. What ranks had before is nothing to compare.
class LoneStart {
 public:
  /// `last`: the digest of the step that ended last. Whether this call is that broadcast, or a
  /// further one of it.
  bool on(const CollectiveEvent& event, const std::map<ModelId, ModelTensors>& models,
          const StepDigest& last, std::int32_t calls);
  void on_backward() { sent_ = 0; }
  /// Once, with the first average.
  std::optional<LoneSteps> take(const CollectiveEvent& event, const RunState& state);

  std::int64_t steps() const { return taken_; }
  /// An optimizer that has stepped before alone.
  bool is_of_it(const OptimizerState& optimizer) const;

 private:
  std::uint64_t sent_ = 0;  // elements, since the last backward
  LoneSteps found_;
  bool averages_ = false;
  std::int64_t taken_ = 0;
  std::map<OptimizerId, std::int64_t> stepped_;
};

}  // namespace ddpscope
