#include "hooks/inferred_calls.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "hooks/convolution_watch.h"
#include "hooks/device_waits.h"
#include "hooks/op_inputs.h"
#include "hooks/operator_recording.h"
#include "hooks/optimizer_watch.h"
#include "hooks/own_operators.h"
#include "hooks/range_ops.h"
#include "hooks/readers.h"
#include "hooks/telling_tensors.h"

namespace ddpscope {
namespace {
using torch::nn::Module;

// Backward and optimizers read parameters too.
bool may_be_forward() {
  return torch::autograd::get_current_node() == nullptr && !InCallback::here() &&
         !inside_optimizer_step();
}

// What an operator computed is no parameter.
bool may_be_parameter(const c10::TensorImpl* tensor) {
  const auto* meta = static_cast<torch::autograd::AutogradMeta*>(tensor->autograd_meta());
  return meta == nullptr || meta->grad_fn_ == nullptr;
}

const Module* owner_of(const c10::TensorImpl* tensor) {
  const bool may_tell = may_be_parameter(tensor) && TellingTensors::may_hold(tensor);
  return may_tell ? UserHooks::inferred_with(tensor) : nullptr;
}

std::vector<at::Tensor> kept(const OperatorTensors& tensors) {
  std::vector<at::Tensor> kept;
  for (c10::TensorImpl* const tensor : tensors) {
    kept.emplace_back(
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(tensor));
  }
  return kept;
}

// The operators that do not pass the gate.
struct Recorded final : at::ObserverContext {
  explicit Recorded(InferredCall&& begun) : call(std::move(begun)) {}
  InferredCall call;
  int exceptions = std::uncaught_exceptions();
};

// The gate stands before these operators alone.
bool returns_new_tensor(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  return schema.has_value() && !schema->is_mutable() &&
         std::ranges::any_of(schema->returns(), [](const c10::Argument& result) {
           return result.type()->kind() == c10::TypeKind::TensorType ||
                  result.type()->isSubtypeOf(*c10::ListType::ofTensors());
         });
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  OperatorTensors inputs;
  for_each_tensor(function.inputs(), [&](const at::Tensor& tensor) { inputs.add(tensor); });
  const Module* module = InferredCall::module_read_by(inputs);
  if (module == nullptr || !returns_new_tensor(function)) return nullptr;
  InferredCall call(module, function.name(), inputs);
  return call ? std::make_unique<Recorded>(std::move(call)) : nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* const recorded = static_cast<Recorded*>(context);
  if (recorded == nullptr || std::uncaught_exceptions() > recorded->exceptions) return;
  OperatorTensors outputs;
  for_each_tensor(function.outputs(), [&](const at::Tensor& tensor) { outputs.add(tensor); });
  recorded->call.end(outputs);
}

constinit OperatorRecording recording(&on_start, &on_end);
std::atomic<bool> gate_tells{false};

// Also called while an operator is registered: takes no lock under which LibTorch is asked.
void switch_recording() noexcept try {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  recording.set(InferredCall::are_wanted() && (!gate_tells.load() || any_own_operators()));
} catch (...) {  // no memory: what the gate does not tell is not inferred
}
}  // namespace

void OperatorTensors::add(const at::Tensor& tensor) {
  if (tensor.defined()) all_.push_back(tensor.unsafeGetTensorImpl());
}
void OperatorTensors::add(at::TensorList list) {
  for (const at::Tensor& tensor : list) add(tensor);
}
void OperatorTensors::add(const at::ITensorListRef& list) {
  for (const at::Tensor& tensor : list) add(tensor);
}
void OperatorTensors::add(const c10::List<std::optional<at::Tensor>>& list) {
  for (std::size_t i = 0; i < list.size(); ++i) add(list.get(i));
}

constinit std::atomic<bool> InferredCall::wanted_{false};

const Module* InferredCall::module_read_by(const OperatorTensors& inputs) {
  if (inputs.size() < 2 || std::ranges::none_of(inputs, may_be_parameter)) return nullptr;
  if (!may_be_forward()) return nullptr;
  UserHooks::settle();
  const Module* module = nullptr;
  bool reads_other = false;
  for (const c10::TensorImpl* tensor : inputs) {
    const Module* owner = owner_of(tensor);
    reads_other |= owner == nullptr;
    if (module == nullptr) module = owner;
  }
  // A penalty on weights, or a look at them, has no other input.
  return reads_other ? module : nullptr;
}

InferredCall::InferredCall(const Module* module, const char* op, const OperatorTensors& inputs) {
  if (module == nullptr) return;
  auto call = std::make_unique<HookedCall>(*module, CallSource::kOperator, op);
  if (!*call) return;
  call_ = std::move(call);
  std::vector<at::Tensor> others = kept(inputs);
  std::erase_if(others, [](const at::Tensor& tensor) {
    return owner_of(tensor.unsafeGetTensorImpl()) != nullptr;
  });
  call_->begin(std::move(others));
}

void InferredCall::end(const OperatorTensors& outputs) { call_->end(kept(outputs), nullptr); }

void infer_calls(bool on) noexcept try {
  static std::once_flag once;
  if (on) {
    std::call_once(once, [] {
      install_optimizer_watch();
      gate_tells = install_readers() & install_range_ops() & install_convolution_watch() &
                   install_wait_ops();
      watch_own_operators(switch_recording);
    });
  }
  InferredCall::wanted_.store(on);
  switch_recording();
} catch (...) {  // no memory: nothing is inferred
}

}  // namespace ddpscope
