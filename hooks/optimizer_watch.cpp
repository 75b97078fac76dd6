#include "hooks/optimizer_watch.h"

#include <torch/optim.h>

#include <utility>

#include "hooks/capture.h"
#include "hooks/gradient_scaling.h"
#include "hooks/interposed.h"
#include "hooks/loop_phase.h"
#include "hooks/model_discovery.h"
#include "hooks/near_tls.h"
#include "hooks/optimizer_members.h"
#include "hooks/optimizer_state.h"
#include "hooks/optimizer_table.h"
#include "hooks/pending_gradients.h"
#include "hooks/reduced_gradients.h"
#include "hooks/spoilt_gradients.h"
#include "hooks/write_scope.h"
#include "hooks/zero_gradients.h"
#include "model/hot_code.h"

namespace ddpscope {
namespace {
using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Closure = Optimizer::LossClosure;

template <class Kind>
struct Step;
struct AddGroup;
struct ZeroGrad;
template <class Kind>
using InterposedStep = Interposed<Step<Kind>, at::Tensor(Kind*, Closure)>;
using InterposedAddGroup = Interposed<AddGroup, void(Optimizer*, const OptimizerParamGroup&)>;
using InterposedZeroGrad = Interposed<ZeroGrad, void(Optimizer*, bool)>;

DDPSCOPE_NEAR thread_local OptimizerId stepping = 0;
DDPSCOPE_NEAR thread_local int step_depth = 0;

void tell_created(Capture& capture, const KnownOptimizer& known) {
  capture.optimizer_created();
  capture.put(OptimizerCreatedEvent{.at = capture.marker().now(), .optimizer = known.id});
}

void begin_first_step(Capture& capture, const Optimizer& optimizer, KnownOptimizer& known) {
  if (!std::exchange(known.has_begun, true)) tell_first_state(capture, optimizer, known.id);
}

struct StepEnd {
  bool with_closure = false;
  bool threw = false;
  ZeroGradients zero;
};

void tell_step(Capture& capture, Optimizer& optimizer, KnownOptimizer& known, const StepEnd& end) {
  const auto& groups = optimizer.param_groups();
  const bool repeated = tell_if_changed(capture, optimizer, known);
  tell_rates(capture, groups, known);
  const Stamp now = capture.marker().now();
  if (std::vector<ZeroGradient> moved = end.zero.moved(capture, groups);
      !moved.empty() && !end.threw) {
    capture.put_large(
        ZeroGradientsEvent{.at = now, .optimizer = known.id, .members = std::move(moved)});
  }
  if (std::vector<ParameterUpdate> updates = known.updates.end(capture, groups);
      !updates.empty() && !end.threw) {
    capture.put_large(
        ParameterUpdatesEvent{.at = now, .optimizer = known.id, .members = std::move(updates)});
  }
  capture.put(OptimizerStepEvent{.at = now,
                                 .optimizer = known.id,
                                 .with_closure = end.with_closure,
                                 .threw = end.threw,
                                 .repeated = repeated});
}

DDPSCOPE_HOT std::uintptr_t first_member_of(const Optimizer& optimizer) {
  const auto& groups = optimizer.param_groups();
  if (groups.empty() || groups.front().params().empty()) return 0;
  const at::Tensor& first = groups.front().params().front();
  return first.defined() ? reinterpret_cast<std::uintptr_t>(first.unsafeGetTensorImpl()) : 0;
}

DDPSCOPE_HOT void after_step(Capture& capture, Optimizer& optimizer, KnownOptimizer& known,
                             const StepEnd& end) {
  if (Capture::watch() != Watch::kNothing) {
    tell_step(capture, optimizer, known, end);
  } else if (capture.options().compares_ranks) {
    if (!known.told_hash.has_value()) tell_now(capture, optimizer, known);
    tell_rates(capture, optimizer.param_groups(), known);
  }
  known.backwards_at_step = capture.marker().backwards();
  if (end.threw) return;
  LoopPhase::enter(Phase::kForward);
  const Stamp now = capture.marker().now();
  capture.clock_moved(now,
                      capture.marker().optimizer_stepped(known.id, first_member_of(optimizer)));
}

// Reports the end of a step also when it is left by an exception, without catching it. A step
// inside a step (an optimizer that wraps another) is part of the outer one.
class OutermostStep {
 public:
  DDPSCOPE_HOT OutermostStep(Optimizer& optimizer, bool with_closure) : optimizer_(optimizer) {
    end_.with_closure = with_closure;
    if (++step_depth > 1) return;
    LoopPhase::enter(Phase::kOptimizer);
    if (!with_closure) RestingWriters::begin();
    as_guest("zero_gradient", [&](Capture& capture) {
      known_ = &OptimizerTable::known(optimizer);
      stepping = known_->id;
      begin_first_step(capture, optimizer, *known_);
      if (Capture::watch() != Watch::kNothing) tell_scaling(capture);
      tell_repaired_or_spoilt(capture, optimizer.param_groups());
      if (!with_closure && capture.options().values)
        known_->rested.step_begins(capture, optimizer.param_groups());
      if (!with_closure) PendingGradients::stepping(capture, optimizer.param_groups());
    });
    // A closure computes the gradients of its step itself.
    if (with_closure || known_ == nullptr || !reads_values()) return;
    as_reader([&](Capture& capture) {
      end_.zero.find(capture, optimizer.param_groups(), known_->next_zero_test);
      known_->updates.begin(capture, optimizer.param_groups());
      ReducedGradients::before_step(capture, optimizer.param_groups());
    });
  }
  DDPSCOPE_HOT ~OutermostStep() {
    if (--step_depth > 0) return;
    stepping = 0;
    RestingWriters::end();
    as_guest("optimizer", [&](Capture& capture) {
      if (known_ != nullptr) after_step(capture, optimizer_, *known_, end_);
    });
  }
  /// Before it ends, else it threw. Asking the runtime for that takes longer.
  void returned() noexcept { end_.threw = false; }

 private:
  Optimizer& optimizer_;
  KnownOptimizer* known_ = nullptr;  // where capture runs; entries stay where they are
  StepEnd end_{.threw = true};
};

template <class Kind>
DDPSCOPE_HOT at::Tensor on_step(Kind* self, Closure closure) {
  Capture::halt_if_asked();
  OutermostStep call(*self, closure != nullptr);
  at::Tensor loss = InterposedStep<Kind>::original(self, std::move(closure));
  call.returned();
  return loss;
}

void on_add_group(Optimizer* self, const OptimizerParamGroup& group) {
  const bool is_new = self->param_groups().empty();
  start_discovery_session();
  InterposedAddGroup::original(self, group);
  if (Capture::active() == nullptr) OptimizerTable::get().remember_early(*self, group, is_new);
  as_guest("optimizer", [&](Capture& capture) {
    if (has_discovered()) attach_discovered(capture);
    const KnownOptimizer& known = OptimizerTable::get().entry(*self, is_new);
    if (is_new) tell_created(capture, known);
    tell_members(capture, members_of(*self), known,
                 known.told_hash.has_value() ? name_of(*self) : name_by_options(*self));
  });
}

DDPSCOPE_HOT void on_zero_grad(Optimizer* self, bool set_to_none) {
  as_guest("optimizer", [&](Capture& capture) {
    const bool watched = Capture::watch() != Watch::kNothing;
    if (watched) tell_scaling(capture);
    KnownOptimizer& known = OptimizerTable::known(*self);
    const bool own_step = step_depth == 0 &&
                          capture.marker().backwards() > known.backwards_at_step &&
                          !ships_with_torch(*self);
    if (own_step) begin_first_step(capture, *self, known);
    if (own_step) after_step(capture, *self, known, {});
    if (step_depth == 0) capture.marker().gradients_cleared();
    if (watched) ReducedGradients::cleared(capture, self->param_groups());
    if (watched) capture.put(ZeroGradEvent{.at = capture.marker().now(), .optimizer = known.id});
  });
  InterposedZeroGrad::original(self, set_to_none);
}

template <class Kind>
bool install_step(const char* mangled_class) noexcept {
  const std::string symbol =
      std::string("_ZN5torch5optim") + mangled_class + "4stepESt8functionIFN2at6TensorEvEE";
  return InterposedStep<Kind>::install(symbol.c_str(), on_step<Kind>);
}
}  // namespace

OptimizerId current_optimizer() noexcept { return stepping; }

bool inside_optimizer_step() noexcept { return step_depth > 0; }

bool install_optimizer_creation() noexcept {
  static const bool live = InterposedAddGroup::install(
      "_ZN5torch5optim9Optimizer15add_param_groupERKNS0_19OptimizerParamGroupE", on_add_group);
  return live;
}

void tell_early_optimizers(Capture& capture) {
  for (const EarlyOptimizer& early : OptimizerTable::get().take_early()) {
    Members members;
    for (const auto& weak_group : early.groups) {
      auto& group = members.groups.emplace_back();
      for (const auto& weak : weak_group) {
        if (auto impl = weak.lock(); impl.defined()) group.emplace_back(std::move(impl));
      }
    }
    const KnownOptimizer& known = OptimizerTable::get().entry(*early.optimizer, /*is_new=*/true);
    tell_created(capture, known);
    tell_members(capture, std::move(members), known, early.type);
  }
}

bool install_optimizer_watch() noexcept {
  bool live = install_step<torch::optim::SGD>("3SGD");
  live &= install_step<torch::optim::Adam>("4Adam");
  live &= install_step<torch::optim::AdamW>("5AdamW");
  live &= install_step<torch::optim::RMSprop>("7RMSprop");
  live &= install_step<torch::optim::Adagrad>("7Adagrad");
  live &= install_step<torch::optim::LBFGS>("5LBFGS");
  live &= install_optimizer_creation();
  live &= InterposedZeroGrad::install("_ZN5torch5optim9Optimizer9zero_gradEb", on_zero_grad);
  return live;
}

void watch_optimizer(Optimizer& optimizer, const std::string& name) {
  as_guest("optimizer", [&](Capture& capture) {
    KnownOptimizer& known = OptimizerTable::known(optimizer);
    known.name = name;
    tell_now(capture, optimizer, known);
  });
}

}  // namespace ddpscope
