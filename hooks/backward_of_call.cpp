#include "hooks/backward_of_call.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "hooks/hooked_call.h"

namespace ddpscope {
namespace {
using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::FunctionPreHook;
using torch::autograd::Node;
using torch::autograd::variable_list;
using CallPtr = std::shared_ptr<BackwardOfCall>;

// One tensor of one call, at the node that computes its gradient.
struct Listener {
  CallPtr owned;  ///< of an output
  std::weak_ptr<BackwardOfCall> known;
  BackwardOfCall::Side side;
  std::size_t position;
  std::size_t input_nr;  ///< of the node: which of its gradients
};

// All listeners of a node, outputs and inputs in the order of the calls.
class NodeHook final : public FunctionPreHook {
 public:
  variable_list operator()(const variable_list& gradients) override {
    std::vector<Listener> inputs = listeners(BackwardOfCall::Side::kInputs);
    std::erase_if(inputs, [&](const Listener& one) { return tell(one, gradients); });
    // Inner calls end first: their outputs come last.
    std::vector<Listener> outputs = listeners(BackwardOfCall::Side::kOutputs);
    std::for_each(outputs.rbegin(), outputs.rend(),
                  [&](const Listener& one) { tell(one, gradients); });
    // A module that hands on what it got has its input and its output at one node.
    for (const Listener& one : inputs) tell(one, gradients);
    return gradients;
  }

  void add(Listener&& listener) {
    const std::lock_guard lock(mutex_);
    std::erase_if(listeners_, [](const Listener& one) { return one.known.expired(); });
    listeners_.push_back(std::move(listener));
  }

 private:
  std::vector<Listener> listeners(BackwardOfCall::Side side) {
    std::vector<Listener> found;
    const std::lock_guard lock(mutex_);
    std::ranges::copy_if(listeners_, std::back_inserter(found),
                         [side](const Listener& one) { return one.side == side; });
    return found;
  }

  static bool tell(const Listener& one, const variable_list& gradients) {
    const CallPtr call = one.known.lock();
    if (call == nullptr || one.input_nr >= gradients.size()) return true;
    return call->arrived(call, one.side, one.position, gradients[one.input_nr]);
  }

  std::mutex mutex_;
  std::vector<Listener> listeners_;
};

// A leaf's node has no hooks of its own that also run where gradients are only asked for.
std::vector<std::unique_ptr<FunctionPreHook>>& hooks_of(Node& node) {
  const bool is_leaf = dynamic_cast<AccumulateGrad*>(&node) != nullptr;
  return is_leaf ? node.pre_hooks() : node.tensor_pre_hooks();
}

void add_listener(Node& node, Listener&& listener) {
  static std::mutex mutex;  // two threads may share a leaf
  const std::lock_guard lock(mutex);
  auto& hooks = hooks_of(node);
  for (const auto& hook : hooks) {
    if (auto* const ours = dynamic_cast<NodeHook*>(hook.get())) {
      return ours->add(std::move(listener));
    }
  }
  auto hook = std::make_unique<NodeHook>();
  hook->add(std::move(listener));
  hooks.push_back(std::move(hook));
}

Edge edge_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad()) return {};
  try {
    return torch::autograd::impl::gradient_edge(tensor);
  } catch (const c10::Error&) {  // a view that autograd will refuse
    return {};
  }
}

edge_list edges_of(const std::vector<at::Tensor>& tensors) {
  edge_list edges;
  for (const at::Tensor& tensor : tensors) edges.push_back(edge_of(tensor));
  return edges;
}

std::size_t valid(const edge_list& edges) {
  return static_cast<std::size_t>(std::ranges::count_if(edges, &Edge::is_valid));
}
}  // namespace

BackwardOfCall::BackwardOfCall(const torch::nn::Module& module, const HookMatches& hooks,
                               const std::vector<at::Tensor>& inputs)
    : module_(module), hooks_(hooks), input_edges_(edges_of(inputs)) {}

void BackwardOfCall::listen(const CallPtr& self, const std::vector<at::Tensor>& outputs) {
  const edge_list inputs = std::move(input_edges_);
  input_edges_.clear();
  const edge_list made = edges_of(outputs);
  outputs_ = {.tensors = made.size(), .expected = valid(made), .waiting = {}};
  inputs_ = {.tensors = inputs.size(), .expected = valid(inputs), .waiting = {}};
  const auto add = [&](const edge_list& edges, Side side) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (!edges[i].is_valid()) continue;
      add_listener(*edges[i].function, {.owned = side == Side::kOutputs ? self : nullptr,
                                        .known = self,
                                        .side = side,
                                        .position = i,
                                        .input_nr = edges[i].input_nr});
    }
  };
  add(made, Side::kOutputs);
  if (outputs_.expected > 0) add(inputs, Side::kInputs);
}

// An input may get gradients of other calls alone: those are not this call's backward.
bool BackwardOfCall::takes_part(Side side, int backward) {
  if (side == Side::kOutputs) running_ = backward;
  return running_ == backward;
}

bool BackwardOfCall::arrived(const CallPtr& self, Side side, std::size_t position,
                             const at::Tensor& gradient) {
  if (!gradient.defined()) return true;
  const int backward = torch::autograd::get_current_graph_task_id();
  std::shared_ptr<Waiting> complete;
  {
    const std::lock_guard lock(mutex_);
    if (!takes_part(side, backward)) return false;
    if (stage(side).expected > 1) {
      complete = wait(self, side, backward);
      if (complete->gradients.empty()) return true;  // told already
      complete->gradients[position] = gradient;
      if (--complete->missing > 0) return true;
    }
  }
  if (complete != nullptr) {
    finish(side, *complete);
  } else {
    std::vector<at::Tensor> alone(stage(side).tensors);
    alone[position] = gradient;
    tell(side, alone);
  }
  return true;
}

// What does not come at all is known when the backward ends.
std::shared_ptr<BackwardOfCall::Waiting> BackwardOfCall::wait(const CallPtr& self, Side side,
                                                              int backward) {
  Stage& stage = this->stage(side);
  std::shared_ptr<Waiting> waiting = stage.waiting.lock();
  if (waiting != nullptr && waiting->backward == backward) return waiting;
  waiting = std::make_shared<Waiting>();
  waiting->backward = backward;
  waiting->gradients.resize(stage.tensors);
  waiting->missing = stage.expected;
  stage.waiting = waiting;
  torch::autograd::Engine::get_default_engine().queue_callback(
      [self, side, waiting] { self->finish(side, *waiting); });
  return waiting;
}

void BackwardOfCall::finish(Side side, Waiting& waiting) {
  std::vector<at::Tensor> gradients;
  {
    const std::lock_guard lock(mutex_);
    gradients.swap(waiting.gradients);
  }
  if (!gradients.empty()) tell(side, gradients);
}

void BackwardOfCall::tell(Side side, const std::vector<at::Tensor>& gradients) {
  if (side == Side::kInputs) {  // outputs that are in use have their gradients by now
    std::shared_ptr<Waiting> outputs;
    {
      const std::lock_guard lock(mutex_);
      outputs = outputs_.waiting.lock();
    }
    if (outputs != nullptr) finish(Side::kOutputs, *outputs);
  }
  if (InCallback::here()) return;
  const InCallback scope;
  for (const HookMatch& match : hooks_) {
    const auto& callback = match.hook->callbacks().backward;
    if (callback == nullptr) continue;
    const auto alive = match.hook->proof(*match.member);
    if (alive == nullptr) continue;
    callback({.module = module_,
              .path = match.member->place.path,
              .type = match.member->type,
              .of_inputs = side == Side::kInputs,
              .gradients = gradients});
  }
}

}  // namespace ddpscope
