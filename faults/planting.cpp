#include "faults/planting.h"

#include <ATen/ops/batch_norm_ops.h>
#include <ATen/ops/cross_entropy_loss_ops.h>
#include <c10/core/GradMode.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim.h>

#include <atomic>
#include <optional>
#include <thread>

#include "hooks/capture.h"
#include "hooks/near_tls.h"
#include "hooks/outer_hook.h"

namespace ddpscope {
namespace {
using torch::autograd::variable_list;
using torch::optim::Optimizer;

DDPSCOPE_NEAR thread_local int turns = 0;
DDPSCOPE_NEAR thread_local int backwards = 0;

struct State {
  Planting planting;
  std::atomic<std::thread::id> thread;
  std::int64_t completed = 0;
  bool is_planted = false;
  // Those that the fault is in.
  const void* layer = nullptr;
  const void* norm = nullptr;
  bool has_members = false;
};
constinit std::atomic<State*> current{nullptr};  // never destroyed

/// A place where the program gives the fault its turn: true when the fault has begun, and this
/// thread is the one that it is in and not inside a turn already.
class Turn {
 public:
  /// A call that trains tells which thread the fault is in.
  explicit Turn(bool trains = true) {
    State* const state = current.load(std::memory_order_acquire);
    if (state == nullptr || Capture::active() == nullptr || turns > 0) return;
    const auto here = std::this_thread::get_id();
    std::thread::id meant = state->thread;
    if (meant == std::thread::id() && trains) state->thread.compare_exchange_strong(meant, here);
    if (meant != std::thread::id() && meant != here) return;
    state_ = state;
    ++turns;
  }
  ~Turn() {
    if (state_ != nullptr) --turns;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Whether the fault may act.
  explicit operator bool() const {
    return state_ != nullptr && state_->planting.fault != nullptr &&
           state_->completed >= state_->planting.after;
  }
  Fault& fault() const { return *state_->planting.fault; }
  State& state() const { return *state_; }

  void tell_steps() const {
    const Capture* const capture = Capture::active();
    if (state_ == nullptr || capture == nullptr) return;
    const std::int64_t completed = capture->marker().completed_steps();
    if (completed == std::exchange(state_->completed, completed)) return;
    state_->planting.observer->steps_completed(completed);
  }

 private:
  State* state_ = nullptr;
};

/// One function that the program calls, in front of our own hook. `Tag` makes one per function.
template <class Tag, class Function>
struct Outer {
  static inline Function* original = nullptr;
  static void install(const char* symbol, Function* hook) {
    hook_before(symbol, reinterpret_cast<void*>(hook), reinterpret_cast<void**>(&original));
  }
};

/// The first that comes is the one.
bool is_chosen(const void*& chosen, const void* one) {
  if (chosen == nullptr) chosen = one;
  return chosen == one;
}

template <class Layer, int kFeatures>
struct LayerForward {
  using Hook = Outer<LayerForward, at::Tensor(Layer*, const at::Tensor&)>;
  static at::Tensor call(Layer* self, const at::Tensor& input) {
    const bool trains = c10::GradMode::is_enabled() && input.requires_grad() &&
                        self->weight.requires_grad() && input.dim() > kFeatures;
    const auto run = [self](const at::Tensor& changed) { return Hook::original(self, changed); };
    if (!trains) return run(input);
    const Turn turn;
    if (!turn || !is_chosen(turn.state().layer, self)) return run(input);
    const std::int64_t features = kFeatures == 0 ? input.dim() - 1 : kFeatures;
    return turn.fault().layer(
        {.weight = self->weight, .input = input, .features = features, .run = run});
  }
};
using LinearForward = LayerForward<torch::nn::LinearImpl, 0>;
using ConvForward = LayerForward<torch::nn::Conv2dImpl, 1>;

struct LabelLoss {
  using Hook = Outer<LabelLoss, at::_ops::cross_entropy_loss::schema>;
  static at::Tensor call(const at::Tensor& input, const at::Tensor& target,
                         const std::optional<at::Tensor>& weight, std::int64_t reduction,
                         c10::SymInt ignore_index, double label_smoothing) {
    const auto run = [&](const at::Tensor& logits, const at::Tensor& labels) {
      return Hook::original(logits, labels, weight, reduction, ignore_index, label_smoothing);
    };
    const bool trains = c10::GradMode::is_enabled() && input.requires_grad() && input.dim() > 1 &&
                        input.size(0) > 1 && !target.is_floating_point();
    if (!trains) return run(input, target);
    const Turn turn;
    if (!turn) return run(input, target);
    return turn.fault().label_loss({.input = input, .target = target, .run = run});
  }
};

struct Norm {
  using Hook = Outer<Norm, at::_ops::batch_norm::schema>;
  static at::Tensor call(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                         const std::optional<at::Tensor>& bias,
                         const std::optional<at::Tensor>& mean,
                         const std::optional<at::Tensor>& variance, bool training, double momentum,
                         double epsilon, bool cudnn_enabled) {
    const auto run = [&](const at::Tensor& changed) {
      return Hook::original(changed, weight, bias, mean, variance, training, momentum, epsilon,
                            cudnn_enabled);
    };
    const bool trains =
        training && c10::GradMode::is_enabled() && mean.has_value() && mean->defined();
    if (!trains) return run(input);
    const Turn turn;
    if (!turn || !is_chosen(turn.state().norm, mean->unsafeGetTensorImpl())) return run(input);
    return turn.fault().norm({.input = input, .mean = *mean, .run = run});
  }
};

struct Backward {
  using Hook = Outer<Backward, void(const variable_list&, const variable_list&, std::optional<bool>,
                                    bool, const variable_list&)>;
  static void call(const variable_list& roots, const variable_list& gradients,
                   std::optional<bool> keep_graph, bool create_graph, const variable_list& inputs) {
    variable_list changed = roots;
    const bool is_of_loss = backwards == 0 && roots.size() == 1 && roots[0].defined() &&
                            roots[0].numel() == 1 && roots[0].requires_grad();
    if (const Turn turn; is_of_loss && turn) turn.fault().before_backward(changed[0]);
    {
      const Nested nested;
      Hook::original(changed, gradients, keep_graph, create_graph, inputs);
    }
    if (backwards > 0) return;
    const Turn turn;
    if (is_of_loss && turn) turn.fault().after_backward(changed[0]);
    turn.tell_steps();
  }

 private:
  struct Nested {
    Nested() { ++backwards; }
    ~Nested() { --backwards; }
  };
};

struct ClearByOptimizer {
  using Hook = Outer<ClearByOptimizer, void(Optimizer*, bool)>;
  static void call(Optimizer* self, bool set_to_none) {
    const Turn turn(/*trains=*/false);
    if (turn && turn.fault().leaves_out_clearing()) return;
    Hook::original(self, set_to_none);
  }
};

struct ClearByModule {
  using Hook = Outer<ClearByModule, void(torch::nn::Module*, bool)>;
  static void call(torch::nn::Module* self, bool set_to_none) {
    const Turn turn(/*trains=*/false);
    if (turn && turn.fault().leaves_out_clearing()) return;
    Hook::original(self, set_to_none);
  }
};

struct Train {
  using Hook = Outer<Train, void(torch::nn::Module*, bool)>;
  static void call(torch::nn::Module* self, bool on) {
    const Turn turn(/*trains=*/false);
    Hook::original(self, on && !(turn && turn.fault().leaves_out_train()));
  }
};

bool has_members(State& state, Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) state.has_members |= !group.params().empty();
  return state.has_members;
}

template <class Kind>
struct Step {
  using Hook = Outer<Step, at::Tensor(Kind*, Optimizer::LossClosure)>;
  static at::Tensor call(Kind* self, Optimizer::LossClosure closure) {
    if (const Turn turn; turn && has_members(turn.state(), *self)) {
      turn.fault().before_step(*self);
    }
    at::Tensor loss = Hook::original(self, std::move(closure));
    const Turn turn;
    if (turn && has_members(turn.state(), *self)) turn.fault().after_step(*self);
    turn.tell_steps();
    return loss;
  }
  static void install(const std::string& mangled_class) {
    const std::string symbol =
        "_ZN5torch5optim" + mangled_class + "4stepESt8functionIFN2at6TensorEvEE";
    Hook::install(symbol.c_str(), call);
  }
};

void install_all() {
  LinearForward::Hook::install("_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE",
                               LinearForward::call);
  ConvForward::Hook::install("_ZN5torch2nn10Conv2dImpl7forwardERKN2at6TensorE", ConvForward::call);
  LabelLoss::Hook::install(
      "_ZN2at4_ops18cross_entropy_loss4callERKNS_6TensorES4_RKSt8optionalIS2_ElN3c106SymIntEd",
      LabelLoss::call);
  Norm::Hook::install("_ZN2at4_ops10batch_norm4callERKNS_6TensorERKSt8optionalIS2_ES8_S8_S8_bddb",
                      Norm::call);
  Backward::Hook::install(
      "_ZN5torch8autograd8backwardERKSt6vectorIN2at6TensorESaIS3_EES7_St8optionalIbEbS7_",
      Backward::call);
  ClearByOptimizer::Hook::install("_ZN5torch5optim9Optimizer9zero_gradEb", ClearByOptimizer::call);
  ClearByModule::Hook::install("_ZN5torch2nn6Module9zero_gradEb", ClearByModule::call);
  Train::Hook::install("_ZN5torch2nn6Module5trainEb", Train::call);
  Step<torch::optim::SGD>::install("3SGD");
  Step<torch::optim::Adam>::install("4Adam");
  Step<torch::optim::AdamW>::install("5AdamW");
  Step<torch::optim::RMSprop>::install("7RMSprop");
  Step<torch::optim::Adagrad>::install("7Adagrad");
  Step<torch::optim::LBFGS>::install("5LBFGS");
}
}  // namespace

void planted() noexcept {
  State* const state = current.load();
  if (state == nullptr || std::exchange(state->is_planted, true)) return;
  state->planting.observer->fault_planted(state->completed + 1);
}

std::int64_t rank_of_fault() noexcept {
  const State* const state = current.load();
  return state == nullptr ? 0 : state->planting.rank;
}

std::int64_t ranks_of_fault() noexcept {
  const State* const state = current.load();
  return state == nullptr ? 1 : state->planting.ranks;
}

void plant(Planting planting) {
  auto* const state = new State;
  state->planting = std::move(planting);
  install_all();
  current.store(state, std::memory_order_release);
}

}  // namespace ddpscope
