#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "checks/loss_scale.h"
#include "exchange/rank_ring.h"
#include "plugin/lone_start.h"
#include "plugin/model_tensors.h"
#include "plugin/skipped_steps.h"
#include "plugin/thread_turns.h"
#include "plugin/trained_with.h"
#include "plugin/used_statistics.h"

namespace ddpscope {

/// Makes of a rank's events what other ranks compare: a digest per step, and one of step 0 before
/// the first. Used by the thread that judges.
class RankDigest {
 public:
  struct Sinks {
    std::function<void(const StepDigest&)> digest;
    std::function<void(const Blob&)> blob;
    /// Of these a report is to show the digest: the first steps, each `every`-th, and those in
    /// which a discrete field changed.
    std::function<void(const StepDigest&)> shown;
    std::function<void(const LoneSteps&)> lone;
  };
  RankDigest(Sinks sinks, std::int64_t every) : sinks_(std::move(sinks)), every_(every) {}

  /// After the judge saw it.
  void saw(const Event& event, const RunState& state);
  /// Nothing came for a while: what is known of the step in progress is told.
  void settle(const RunState& state);

 private:
  void on(const GradientEvent& event, const RunState& state);
  void on(const BackwardEvent& event, const RunState& state);
  void on(const BackwardEndEvent& event, const RunState& state);
  void on(const OpEvent& event, const RunState& state) {
    scale_.on_op(event);
    trained_with_.on(event, state);
  }
  void on(const CollectiveEvent& event, const RunState&);
  void on(const ReducerEvent& event, const RunState&) { averages_ |= event.ranks > 1; }
  void on(const TreeEvent& event, const RunState& state);
  void on(const TreeEndEvent& event, const RunState& state);
  void on(const DeclarationEvent& event, const RunState& state);
  void on(const OptimizerMembersEvent&, const RunState&) { optimizers_changed_ = true; }
  void on(const OptimizerStateEvent& event, const RunState&) {
    if (event.is_known) first_states_[event.optimizer] = event;
  }
  void on(const OptimizerRatesEvent& event, const RunState&);
  void on(const OptimizerStepEvent&, const RunState&);
  void on(const TensorBitsEvent& event, const RunState& state);
  void on(const GradientsScaledEvent& event, const RunState&) { trained_with_.on(event); }
  void on(const ReducedGradientsEvent& event, const RunState&) { trained_with_.on(event); }
  void on(const LossTargetsEvent& event, const RunState& state) { trained_with_.on(event, state); }
  void on(const BatchRequestEvent& event, const RunState& state) { trained_with_.on(event, state); }
  void on(const BatchEvent& event, const RunState& state) { trained_with_.on(event, state); }
  void on(const RandomStateEvent& event, const RunState& state) { trained_with_.on(event, state); }
  void on(const StepEndEvent& event, const RunState& state);
  void on(const EvaluationEvent&, const RunState&) { statistics_.used(buffer_elements()); }
  void on(const ArchiveTensorEvent& event, const RunState&);
  void on(const DroppedEvent&, const RunState&) { lost_events_ = lost_any_ = true; }
  void on(const ExitEvent&, const RunState& state);
  template <class T>
  void on(const T&, const RunState&) {}

  void look_at(ModelId model, const RunState& state);
  void see_sent(TensorId tensor, std::int64_t elements);
  void leave_models();
  void come_back(TensorId trained, const RunState& state);
  std::int64_t buffer_elements() const;
  void put(BlobKind kind, ModelId model, std::int64_t step, const std::string& bytes);
  void put_list(ModelId model, const std::string& bytes);
  void put_start(const RunState& state);
  void put_in_progress(const RunState& state);
  /// Of a step that hooks saw all of.
  void add_whole(StepDigest& digest, const RunState& state);
  void add_structure(StepDigest& digest);
  void add_gradients(StepDigest& digest, const RunState& state, bool with_bits);
  void add_optimizers(StepDigest& digest, const RunState& state);
  /// Hooks rested in it, or in a part.
  void add_rested_optimizers(StepDigest& digest, const RunState& state);
  void add_options(StepDigest& digest, const RunState& state) const;
  std::int64_t local_members(const OptimizerState& optimizer) const;
  StepDigest look_at_optimizers(const RunState& state);
  std::set<OptimizerId> in_use(const RunState& state) const;
  void add_values(StepDigest& digest);
  void show(const StepDigest& digest);

  Sinks sinks_;
  std::int64_t every_;
  std::map<ModelId, ModelTensors> models_;
  std::set<ModelId> left_;  ///< not compared
  std::set<ModelId> sent_;  ///< before the first average
  TrainedWith trained_with_{models_, sinks_.blob};
  ModelTensors::Bits bits_;          // of one step: parameters when it begins, buffers at its end
  ModelTensors::Sketches sketches_;  // likewise
  ModelTensors::Bits attached_;      // of buffers, when a model came or an archive was read
  std::set<ModelId> ran_;            // before the backward of that step
  std::int64_t bits_step_ = 0;
  LossScale scale_;
  bool scale_known_ = false;
  StepDigest last_;        // of the last step that ended
  StepDigest optimizers_;  // the fields of optimizers alone, and of which gradients
  StepDigest shown_;
  std::map<OptimizerId, OptimizerStateEvent> first_states_;
  bool start_changed_ = false;
  bool steps_began_ = false;
  std::set<OptimizerId> stepped_;      // those that told their rates, as they do in a step
  std::vector<OptimizerId> compared_;  // whose options are compared
  bool optimizers_apart_ = true;       // which those are is known without their steps
  bool optimizers_changed_ = true;
  bool rates_changed_ = false;
  bool lost_events_ = false;
  bool lost_any_ = false;
  bool averages_ = false;
  UsedStatistics statistics_;
  bool trains_ = false;         // a backward began
  std::int32_t calls_ = 0;      // since then
  std::int32_t backwards_ = 0;  // that ended since the last step
  bool in_progress_told_ = false;
  bool second_order_ = false;  // the last backward of this step
  SkippedSteps skipped_;
  LoneStart lone_;
  ThreadTurns turns_;
  std::uint64_t told_gradients_ = 0;
  std::int64_t load_step_ = 0;
};

}  // namespace ddpscope
