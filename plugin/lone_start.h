#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "checks/run_state.h"
#include "model/archive_event.h"
#include "model/collective_event.h"
#include "model/step_digest.h"
#include "plugin/model_tensors.h"

namespace ddpscope {

/// Finds the steps that a rank made alone before it trained with others, as to warm up or to look
/// for a learning rate. They end, between two steps, where as many elements as it trains are sent
/// to it or read from an archive, or in the first call since they began, if that is a broadcast or
/// a barrier; and the first average of gradients follows. What ranks had before is nothing to
/// compare. In none of them it gave others as many elements as it trains, or got them, in another
/// way: that is how gradients are averaged, on some ranks with a broadcast at the end.
/// So are all steps before the first average where no optimizer has stepped what is averaged: they
/// trained another model, as one that each rank has for itself.
class LoneStart {
 public:
  using Models = std::map<ModelId, ModelTensors>;

  /// `last`: the digest of the step that ended last; `calls`: with this one.
  void on(const CollectiveEvent& event, const Models& models, const StepDigest& last,
          std::int32_t calls);
  void on(const ArchiveTensorEvent& event, const Models& models, const StepDigest& last,
          std::int32_t calls);
  void on_backward(const StepDigest& last, std::int32_t calls);
  /// Once, with the first average.
  std::optional<LoneSteps> take(const CollectiveEvent& event, const Models& models,
                                const RunState& state);

  std::int64_t steps() const { return taken_; }
  /// An optimizer that has stepped before alone.
  bool is_of_it(const OptimizerState& optimizer) const;

 private:
  void add(std::int64_t elements, const Models& models, const StepDigest& last);
  void end_with(const StepDigest& last, LoneEnd end);
  bool trained_others(const CollectiveEvent& event, const RunState& state) const;
  void add_exchanged(const CollectiveEvent& event, const StepDigest& last);

  std::uint64_t brought_ = 0;             // elements, since the last backward
  std::uint64_t exchanged_elements_ = 0;  // in the step in progress
  std::uint64_t most_exchanged_ = 0;      // in one step
  std::int64_t exchanged_after_ = -1;     // the step before that in progress
  std::int64_t before_ = -1;              // the step that ended last when the last backward began
  StepDigest began_;                      // the digest of that step
  std::int32_t calls_began_ = 0;          // then
  bool exchanged_ = false;                // with others, since the first backward
  bool ends_ = false;                     // since the last backward
  LoneSteps found_;
  bool averages_ = false;
  std::int64_t taken_ = 0;
  std::map<OptimizerId, std::int64_t> stepped_;
};

}  // namespace ddpscope
