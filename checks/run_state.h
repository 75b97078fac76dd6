#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checks/declared_parts.h"
#include "checks/op_trace.h"
#include "checks/site_source.h"
#include "checks/tensor_table.h"
#include "model/event.h"

namespace ddpscope {

/// An attached root as it is registered now.
struct ModelState {
  ModelId id = 0;
  std::string label;
  std::vector<ModuleInfo> modules;
  std::vector<RegisteredTensor> tensors;
};

struct ModulePlace {
  ModelId model = 0;
  std::string path;
};

struct OptimizerState {
  OptimizerId id = 0;
  std::string type;          ///< without its namespace
  bool of_libtorch = false;  ///< a class of LibTorch, not of the program
  std::string name;
  std::vector<std::vector<OptimizerMember>> groups;
  std::vector<GroupOptions> options;
  bool members_known = false;
  bool creation_seen = false;
  bool has_begun = false;       ///< its first step, which hooks may have seen no more of
  std::int64_t first_seen = 0;  ///< number of the event that named it first
  std::int64_t first_seen_step = 0;
  std::int64_t steps = 0;
  std::int64_t clears = 0;  ///< calls of its zero_grad()
  std::int64_t last_step_cycle = 0;
  std::int64_t last_step = 0;
  std::int64_t last_step_event = 0;  ///< number of that event
  std::int64_t longest_rest = 0;     ///< in steps, between two of its own or before the first

  bool never_stepped() const { return steps == 0 && !has_begun; }
  /// Of an earlier loop: it steps no more, or was made long ago and was never seen to. It and its
  /// members may be gone, and their memory belong to others.
  bool has_ended(const Stamp& now) const {
    constexpr std::int64_t kLong = 64;
    return steps > 0 ? last_step_cycle < now.cycle - 1 : first_seen_step + kLong < now.step;
  }
};

/// What all checks ask about the run so far. The judge shows it every event before the checks.
class RunState {
 public:
  void apply(const Event& event);

  const Stamp& now() const { return now_; }
  /// At the end of a program, where hooks may have rested for long, that of the last watched cycle;
  /// else that of `now`.
  std::int64_t watched_step() const { return has_ended_ ? watched_step_ : now_.step; }
  std::int64_t events_count() const { return event_number_; }
  /// Where stacks become frames; null where none are taken.
  SiteSource* sites() const { return sites_; }
  void set_sites(SiteSource* sites) { sites_ = sites; }
  /// Of the processes that train together, as the launcher or the program said.
  std::int64_t world_size() const { return world_size_; }
  void set_world_size(std::int64_t world_size) { world_size_ = world_size; }
  /// As it was read last.
  const HostCountsEvent& host() const { return host_; }
  /// The batch that was seen last; of a step before the present one where none was seen since.
  const BatchEvent& batch() const { return batch_; }
  const std::map<ModelId, ModelState>& models() const { return models_; }
  /// Whether there is no model, nor did the program detach the last one.
  bool has_no_model() const { return models_.empty() && !was_detached_; }
  const std::map<OptimizerId, OptimizerState>& optimizers() const { return optimizers_; }
  /// Of one optimizer; those of cycles in which hooks rested are shared out evenly.
  std::int64_t most_steps() const;
  std::int64_t steps_of(const OptimizerState& optimizer) const;
  const TensorTable& tensors() const { return tensors_; }
  const TensorState* tensor(TensorId id) const { return tensors_.find(id); }
  /// The surveyed operators of the step in progress.
  const OpTrace& trace() const { return trace_; }
  /// Where a module is registered; null if it is not.
  const ModulePlace* place_of(ModuleId module) const;
  /// The module that ran an operator, or else one whose parameter the operator read.
  std::optional<std::string> path_of(const OpEvent& event) const;

  /// Every parameter that was registered or owned, and required grad, in this cycle.
  bool eligible(const TensorState& tensor) const;
  /// The model that a finding about these tensors is filed under; null if none is attached.
  const ModelState* model_of(const TensorState& tensor) const;
  /// That of its first member that is known; the first model where none is.
  const ModelState* model_of(const OptimizerState& optimizer) const;
  /// The tensor of a model that got a gradient last; null if none did.
  const TensorState* trained_in(ModelId model) const;
  /// Of those that a gradient has reached, if one has: a prototype that is only copied is none.
  const ModelState* first_model() const;
  bool gradient_reached(ModelId model) const { return models_with_gradient_.contains(model); }

  /// Every optimizer that could own a parameter is known: each one that stepped was seen when it
  /// was created, or the 32 optimizer steps of checks.md section 1.1 have shown the others.
  bool optimizers_known() const;
  /// Only optimizers that never stepped hold this tensor.
  bool waits_for_first_step(const TensorState& tensor) const;

  /// Whether a declaration of this kind, or `intended`, covers the path.
  bool declared(ModelId model, std::string_view path, std::string_view kind) const {
    return declarations_.cover(model, path, kind);
  }
  /// Whether the program named the ranks over which this model's gradients are averaged.
  bool said_to_average(ModelId model) const { return declarations_.say_average(model); }
  const DeclaredParts& declarations() const { return declarations_; }
  /// Backward and step() are called by several threads, as of workers with a copy of the model
  /// each.
  bool several_threads_train() const { return several_threads_train_; }
  /// Whether it may not have been seen yet that such a copy is written anew for each pass: steps of
  /// other threads end the surveyed cycles.
  bool may_be_copy_of_thread(const TensorState& tensor) const {
    return several_threads_train_ && tensor.use.cycles < kCyclesAmongThreads;
  }
  /// Unregistered leaves without an optimizer that backward reached in two steps or more.
  std::vector<const TensorState*> loose_leaves() const;
  /// Its gradient is a value that the program computes with, as that of a place with respect to
  /// which a network is differentiated, and no module holds it.
  bool is_data(const TensorState& tensor) const;
  /// Whether the gradients of some Reducer are views of its buckets.
  bool has_bucket_views() const { return has_bucket_views_; }
  std::int64_t last_surveyed_cycle() const { return trace_.last_surveyed_cycle(); }
  /// The type of the live module that holds this unregistered tensor, or "".
  std::string loose_module_type(TensorId id) const;
  /// It was in eval mode when it ran last: eval() of a model does not reach what is not registered.
  bool loose_module_evaluates(TensorId id) const;
  /// More than one owner held the live module that holds it.
  bool loose_module_is_shared(TensorId id) const;

 private:
  static constexpr std::int64_t kCyclesAmongThreads = 16;

  void on(const std::monostate&) {}
  void on(const GradientEvent& event);
  void on(const OptimizerStepEvent& event);
  void on(const ZeroGradEvent& event);
  void on(const CycleEndEvent& event) {
    now_ = event.at;
    watched_step_ = event.at.step;
  }
  void on(const OptimizerCreatedEvent& event);
  void on(const BackwardEndEvent& event);
  void on(const ExitEvent& event) {
    has_ended_ = true;
    if (event.at.step > 0) now_ = event.at;
  }
  void on(const DroppedEvent&) { trace_.clear(); }
  void on(const TreeEndEvent& event);
  void on(const TreeEvent& event);
  void on(const LooseModuleEvent& event);
  void on(const DeclarationEvent& event) {
    declarations_.add(event);
    for (const auto& [id, model] : models_) declarations_.see(id, model.modules, model.tensors);
  }
  void on(const TensorEvent& event);
  void on(const OpEvent& event);
  void on(const BackwardEvent& event);
  void on(const OptimizerMembersEvent& event);
  void on(const ErrorEvent& event) { now_ = event.at; }
  void on(const OperatorFailedEvent& event) { begin_cycle_if_new(event.at); }
  void on(const TrainingOpEvent& event) { begin_cycle_if_new(event.at); }
  void on(const JudgedOutputEvent&) {}
  void on(const ZeroGradientsEvent& event);
  void on(const ArchiveTensorEvent& event) { begin_cycle_if_new(event.at); }
  void on(const QuietBufferEvent& event) { begin_cycle_if_new(event.at); }
  void on(const HookRefusedEvent&) {}
  void on(const StaleSavedEvent& event) { begin_cycle_if_new(event.at); }
  void on(const NestedBackwardEvent& event) { begin_cycle_if_new(event.at); }
  void on(const GraphFreedEvent& event) { begin_cycle_if_new(event.at); }
  void on(const FailedWriteEvent& event) { begin_cycle_if_new(event.at); }
  void on(const NonfiniteOutputEvent& event) { begin_cycle_if_new(event.at); }
  void on(const LossEvent& event) { begin_cycle_if_new(event.at); }
  void on(const NonfiniteGradientEvent& event) { begin_cycle_if_new(event.at); }
  void on(const GradientsSpoiltEvent& event) { begin_cycle_if_new(event.at); }
  void on(const ScaledCopyEvent& event) { begin_cycle_if_new(event.at); }
  void on(const SpoiltStepEvent&) {}
  void on(const GradientsRepairedEvent& event) { begin_cycle_if_new(event.at); }
  void on(const NonfiniteNodeEvent& event) { begin_cycle_if_new(event.at); }
  void on(const RiskyInputEvent& event) { begin_cycle_if_new(event.at); }
  void on(const HalfOutputEvent& event) { begin_cycle_if_new(event.at); }
  void on(const GradientValuesEvent& event) { begin_cycle_if_new(event.at); }
  void on(const OutOfRangeEvent& event) { begin_cycle_if_new(event.at); }
  void on(const LossInputEvent& event) { begin_cycle_if_new(event.at); }
  void on(const GradientsScaledEvent& event) { begin_cycle_if_new(event.at); }
  void on(const BatchEvent& event) { batch_ = event; }
  void on(const RandomStateEvent&) {}
  void on(const ReducedGradientsEvent&) {}  // for ranks that compare them
  void on(const ParameterUpdatesEvent& event) { begin_cycle_if_new(event.at); }
  void on(const StepWaitEvent& event) { begin_cycle_if_new(event.at); }
  void on(const HostCountsEvent& event) { host_ = event; }
  void on(const KeptOutputsEvent& event) { begin_cycle_if_new(event.at); }
  void on(const ConvolutionShapeEvent& event) { begin_cycle_if_new(event.at); }
  void on(const DeviceWaitsEvent& event) { begin_cycle_if_new(event.at); }
  void on(const CollectiveEvent& event) { begin_cycle_if_new(event.at); }
  void on(const PendingUseEvent& event) { begin_cycle_if_new(event.at); }
  void on(const CollectiveEndEvent& event) { begin_cycle_if_new(event.at); }
  void on(const DeviceMemoryEvent&) {}
  void on(const ValuesAwaitedEvent&) {}
  void on(const DeviceValuesEvent&) {}  // reaches the checks as the events that it holds
  void on(const StepEndEvent&) {}
  void on(const RestedStepEvent&) {}
  void on(const TensorBitsEvent&) {}
  void on(const EvaluationEvent&) {}
  void on(const OptimizerStateEvent& event);
  void on(const BatchRequestEvent&) {}
  void on(const LossTargetsEvent&) {}
  void on(const OptimizerRatesEvent& event);
  void on(const ReducerEvent& event) { has_bucket_views_ |= event.bucket_views; }

  void reach(TensorState& tensor);
  void let_go(TensorId former_member);
  void trains_on(std::uint64_t thread) {
    several_threads_train_ |= training_thread_ != 0 && training_thread_ != thread;
    training_thread_ = thread;
  }
  void set_requires_grad(TensorState& tensor, bool requires_grad);
  OptimizerState& optimizer(OptimizerId id);
  void begin_cycle_if_new(const Stamp& at);
  void place_modules(const TreeEvent& event);

  Stamp now_;
  std::int64_t watched_step_ = 0;  // of the last cycle that hooks saw the end of
  bool has_ended_ = false;
  std::int64_t world_size_ = 1;
  SiteSource* sites_ = nullptr;
  std::int64_t event_number_ = 0;
  std::int64_t optimizer_steps_ = 0;
  std::int64_t optimizers_stepped_ = 0;  // how many ever did
  std::uint64_t training_thread_ = 0;
  bool several_threads_train_ = false;
  bool has_bucket_views_ = false;
  HostCountsEvent host_;
  BatchEvent batch_;
  bool was_detached_ = false;  // the last model that went
  std::map<ModelId, ModelState> models_;
  std::map<OptimizerId, OptimizerState> optimizers_;
  std::map<ModuleId, ModulePlace> module_places_;
  struct LooseModule {
    std::string type;
    bool evaluates = false;
    bool is_shared = false;
  };
  std::map<TensorId, LooseModule> loose_modules_;
  DeclaredParts declarations_;
  std::vector<TensorId> repeated_leaves_;
  std::set<ModelId> models_with_gradient_;  // in this cycle
  std::map<ModelId, TensorId> trained_;     // in any; the last tensor that got one
  TensorTable tensors_;
  OpTrace trace_{tensors_};
};

}  // namespace ddpscope
