#include "hooks/inferred_calls.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <exception>
#include <string_view>

#include "hooks/hooked_call.h"
#include "hooks/op_inputs.h"
#include "hooks/operator_recording.h"
#include "hooks/optimizer_watch.h"

namespace ddpscope {
namespace {
using torch::nn::Module;

struct InferredCall final : at::ObserverContext {
  std::unique_ptr<HookedCall> call;
  int exceptions = std::uncaught_exceptions();
};

// Backward and optimizers read parameters too, and what writes one is no forward.
bool may_be_forward(std::string_view op) {
  return torch::autograd::get_current_node() == nullptr && !InCallback::here() &&
         !op.ends_with('_') && !inside_optimizer_step();
}

// What an operator computed is no parameter.
bool may_be_parameter(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta == nullptr || meta->grad_fn_ == nullptr;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  if (!may_be_forward(function.name())) return nullptr;
  const Module* module = nullptr;
  std::vector<at::Tensor> inputs;
  for_each_tensor(function.inputs(), [&](const at::Tensor& tensor) {
    const Module* owner =
        may_be_parameter(tensor) ? UserHooks::inferred_with(tensor.unsafeGetTensorImpl()) : nullptr;
    if (owner == nullptr) inputs.push_back(tensor);
    if (module == nullptr) module = owner;
  });
  // A penalty on weights, or a look at them, has no other input.
  if (module == nullptr || inputs.empty()) return nullptr;
  auto context = std::make_unique<InferredCall>();
  context->call = HookedCall::of(*module, CallSource::kOperator, function.name());
  if (context->call == nullptr) return nullptr;
  context->call->begin(std::move(inputs));
  return context;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* const inferred = static_cast<InferredCall*>(context);
  if (inferred == nullptr || std::uncaught_exceptions() > inferred->exceptions) return;
  std::vector<at::Tensor> outputs;
  for_each_tensor(function.outputs(), [&](const at::Tensor& tensor) { outputs.push_back(tensor); });
  inferred->call->end(std::move(outputs), nullptr);
}

constinit OperatorRecording recording(&on_start, &on_end);
}  // namespace

void infer_calls(bool on) noexcept try {
  if (on) install_optimizer_watch();
  recording.set(on);
} catch (...) {  // no memory: nothing is inferred
}

}  // namespace ddpscope
