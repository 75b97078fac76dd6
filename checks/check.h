#pragma once

#include <string>
#include <utility>

#include "model/event.h"
#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

class RunState;

/// One check of the catalogue. Fed in the order of events, by one thread. What it finds goes into
/// `findings`; the judge adds id, rank, step and fingerprint, and drops repetitions.
class Check {
 public:
  virtual ~Check() = default;

  /// Has nothing to do for events of this kind, now and later: the judge stops sending them.
  void pass() noexcept { passed_ = true; }
  bool take_pass() noexcept { return std::exchange(passed_, false); }

  virtual void on_tree(const TreeEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_op(const OpEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_backward(const BackwardEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_backward_end(const BackwardEndEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_gradient(const GradientEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_optimizer_members(const OptimizerMembersEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_optimizer_step(const OptimizerStepEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_zero_grad(const ZeroGradEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_cycle_end(const CycleEndEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_error(const ErrorEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_operator_failed(const OperatorFailedEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_training_op(const TrainingOpEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_judged_output(const JudgedOutputEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_zero_gradients(const ZeroGradientsEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_archive_tensor(const ArchiveTensorEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_quiet_buffer(const QuietBufferEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_hook_refused(const HookRefusedEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_stale_saved(const StaleSavedEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_failed_write(const FailedWriteEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_graph_freed(const GraphFreedEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_nested_backward(const NestedBackwardEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_nonfinite_output(const NonfiniteOutputEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_loss(const LossEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_nonfinite_gradient(const NonfiniteGradientEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_gradients_repaired(const GradientsRepairedEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_gradients_spoilt(const GradientsSpoiltEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_scaled_copy(const ScaledCopyEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_spoilt_step(const SpoiltStepEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_nonfinite_node(const NonfiniteNodeEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_risky_input(const RiskyInputEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_half_output(const HalfOutputEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_gradient_values(const GradientValuesEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_out_of_range(const OutOfRangeEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_loss_input(const LossInputEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_gradients_scaled(const GradientsScaledEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_batch(const BatchEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_batch_request(const BatchRequestEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_parameter_updates(const ParameterUpdatesEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_step_wait(const StepWaitEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_host_counts(const HostCountsEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_kept_outputs(const KeptOutputsEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_convolution_shape(const ConvolutionShapeEvent&, const RunState&, Findings&) {
    pass();
  }
  virtual void on_device_waits(const DeviceWaitsEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_collective(const CollectiveEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_pending_use(const PendingUseEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_collective_end(const CollectiveEndEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_device_memory(const DeviceMemoryEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_reducer(const ReducerEvent&, const RunState&, Findings&) { pass(); }
  virtual void on_exit(const ExitEvent&, const RunState&, Findings&) { pass(); }
  /// Events were lost: what counts over several steps starts anew.
  virtual void on_dropped(const DroppedEvent&, const RunState&) { pass(); }
  /// The ranks' own records side by side, at a merge or while ranks hang. Of a check that sees no
  /// other event.
  virtual void on_ranks_compared(const RanksComparedEvent&, Findings&) {}
  /// Why a run that ends here was long enough and yet is not judged; empty where it is.
  virtual std::string unfinished(const RunState&) const { return {}; }

 private:
  bool passed_ = false;
};

}  // namespace ddpscope
