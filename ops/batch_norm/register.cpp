// What other languages call: torch.ops.load_library("libddpscope.so"), then torch.ops.ddpscope.
#include <torch/library.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "ops/batch_norm/named_call.h"
#include "ops/communicator/named.h"
#include "ops/traced.h"

namespace ddpscope::batch_norm {
namespace {
using torch::jit::Stack;

void run(const c10::OperatorHandle&, Stack* stack) {
  const NamedCall call = pop_call(*stack);
  stack->emplace_back(
      sync_batch_norm(call.input, call.running_mean, call.running_var, call.options_with_group()));
}

void follow_shape(const c10::OperatorHandle&, Stack* stack) {
  stack->emplace_back(like_output(pop_call(*stack).input));
}

bool needs_gradient(const Stack& stack) {
  return at::GradMode::is_enabled() &&
         std::any_of(stack.end() - kNamedArguments, stack.end(), [](const c10::IValue& argument) {
           return argument.isTensor() && argument.toTensor().requires_grad();
         });
}

/// A tensor that is traced leaves the operator itself in the graph, else that of the function is
/// made, twice differentiable.
void run_in_graph(const c10::OperatorHandle& op, Stack* stack) {
  if (!ops::is_traced(torch::jit::peek(*stack, 0, kNamedArguments).toTensor())) {
    run(op, stack);
  } else if (needs_gradient(*stack)) {
    const at::Tensor y = trace_with_gradient(*stack);
    torch::jit::drop(*stack, kNamedArguments);
    stack->emplace_back(y);
  } else {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.callBoxed(stack);
  }
}

}  // namespace

CommunicatorPtr group_of(const std::string& name) {
  if (name.empty()) return nullptr;
  if (const CommunicatorPtr own = communicator::registered(name)) return own;
  const auto group = c10d::resolve_process_group(name);
  return communicator::kept_for(name, group.get(), [&] { return make_communicator(group); });
}

SyncBatchNormFuncOptions NamedCall::options_with_group() const {
  return SyncBatchNormFuncOptions(options).communicator(options.training() ? group_of(group)
                                                                           : nullptr);
}

NamedCall pop_call(Stack& stack) {
  const std::vector<c10::IValue> arguments = torch::jit::pop(stack, kNamedArguments);
  const auto tensor = [&](std::size_t i) {
    return arguments[i].isNone() ? at::Tensor() : arguments[i].toTensor();
  };
  return {.input = tensor(0),
          .running_mean = tensor(3),
          .running_var = tensor(4),
          .options = SyncBatchNormFuncOptions()
                         .weight(tensor(1))
                         .bias(tensor(2))
                         .training(arguments[5].toBool())
                         .momentum(arguments[6].toDouble())
                         .eps(arguments[7].toDouble())
                         .name(arguments[9].toStringRef()),
          .group = arguments[8].toStringRef()};
}

TORCH_LIBRARY_FRAGMENT(ddpscope, library) {
  library.def(
      "sync_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, "
      "Tensor(b!)? running_var, bool training, float momentum=0.1, float eps=1e-05, "
      "str group=\"\", str layer=\"\") -> Tensor");
}

TORCH_LIBRARY_IMPL(ddpscope, CompositeExplicitAutograd, library) {
  library.impl("sync_batch_norm", torch::CppFunction::makeFromBoxedFunction<&run>());
}

TORCH_LIBRARY_IMPL(ddpscope, Autograd, library) {
  library.impl("sync_batch_norm", torch::CppFunction::makeFromBoxedFunction<&run_in_graph>());
}

TORCH_LIBRARY_IMPL(ddpscope, Meta, library) {
  library.impl("sync_batch_norm", torch::CppFunction::makeFromBoxedFunction<&follow_shape>());
}

}  // namespace ddpscope::batch_norm
