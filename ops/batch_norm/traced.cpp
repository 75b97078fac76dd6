// The operators that torch.compile records for a batch norm with a gradient: a forward that gives
// what its backward needs, and the backward.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <optional>

#include "ops/batch_norm/autograd.h"
#include "ops/batch_norm/function.h"
#include "ops/batch_norm/layout.h"
#include "ops/batch_norm/named_call.h"

namespace ddpscope::batch_norm {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using torch::jit::Stack;
using MaybeTensor = std::optional<at::Tensor>;

constexpr const char* kForward = "ddpscope::_sync_batch_norm_forward";
constexpr const char* kBackward = "ddpscope::_sync_batch_norm_backward";

at::TensorOptions double_options(const at::Tensor& input) {
  return input.options().dtype(at::kDouble).memory_format(at::MemoryFormat::Contiguous);
}

/// Statistics and 1 / N of a call and, on the CPU, its number; Double, (2C + 2).
at::Tensor packed(const Call& call) {
  const at::Tensor& statistics = call.statistics;
  const double number = statistics.is_cpu() ? static_cast<double>(call.number) : 0;
  return at::cat({statistics.reshape({-1}), call.inverse().reshape({1}),
                  at::full({1}, number, statistics.options())});
}

/// What a backward takes from the stack.
struct BackwardCall {
  at::Tensor dy, input, weight, statistics;
  bool trained;
  std::string group, layer;
};

BackwardCall pop_backward(Stack& stack) {
  const std::vector<c10::IValue> given = torch::jit::pop(stack, 7);
  return {.dy = given[0].toTensor(),
          .input = given[1].toTensor(),
          .weight = given[2].isNone() ? at::Tensor() : given[2].toTensor(),
          .statistics = given[3].toTensor(),
          .trained = given[4].toBool(),
          .group = given[5].toStringRef(),
          .layer = given[6].toStringRef()};
}

CallPtr call_of(const BackwardCall& backward, const at::Tensor& x) {
  const auto options = SyncBatchNormFuncOptions()
                           .communicator(backward.trained ? group_of(backward.group) : nullptr)
                           .name(backward.layer);
  const std::int64_t numbers = 2 * x.size(1);
  const at::Tensor all = backward.statistics.contiguous();
  const std::int64_t number = x.is_cpu() ? std::llround(all[numbers + 1].item<double>()) : 0;
  CallPtr call = make_call(x, options, has_group(options), number);
  call->statistics = all.narrow(0, 0, numbers).view({2, x.size(1)});
  if (x.is_cpu()) {
    call->inverse_count = all[numbers].item<double>();
  } else {
    call->device_inverse_count = all.select(0, numbers);
  }
  return call;
}

/// Of the gradients of weight and bias.
at::ScalarType dtype_of_parameters(const BackwardCall& call) {
  if (call.weight.defined()) return call.weight.scalar_type();
  return call.input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void run_forward(const c10::OperatorHandle&, Stack* stack) {
  const at::NoGradGuard no_grad;
  const NamedCall named = pop_call(*stack);
  const SyncBatchNormFuncOptions options = named.options_with_group();
  const auto [x, call, on_device] =
      start(named.input, {named.running_mean, named.running_var}, options);
  stack->emplace_back(normalize_in_graph(x, options.weight(), options.bias(), call, on_device));
  stack->emplace_back(packed(*call));
}

void run_backward(const c10::OperatorHandle&, Stack* stack) {
  const at::NoGradGuard no_grad;
  const BackwardCall backward = pop_backward(*stack);
  const at::Tensor x = without_gaps(in_memory(backward.input));
  const CallPtr call = call_of(backward, x);
  const at::Tensor dy = in_layout(in_memory(backward.dy), shape_of(x).layout);
  const Gradients gradients = gradients_of({x, backward.weight, call->statistics}, dy, *call, true);
  stack->emplace_back(gradients.input);
  stack->emplace_back(gradients.weight.to(dtype_of_parameters(backward)));
  stack->emplace_back(gradients.bias.to(dtype_of_parameters(backward)));
}

void follow_forward(const c10::OperatorHandle&, Stack* stack) {
  const at::Tensor input = pop_call(*stack).input;
  stack->emplace_back(like_output(input));
  stack->emplace_back(at::empty_symint({2 * input.sym_size(1) + 2}, double_options(input)));
}

void follow_backward(const c10::OperatorHandle&, Stack* stack) {
  const BackwardCall backward = pop_backward(*stack);
  const at::Tensor numbers =
      at::empty_symint({backward.input.sym_size(1)},
                       double_options(backward.input).dtype(dtype_of_parameters(backward)));
  stack->emplace_back(like_output(backward.input));
  stack->emplace_back(numbers);
  stack->emplace_back(at::empty_like(numbers));
}

void call_by_name(const char* name, Stack& stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
}

struct TracedBatchNorm : Function<TracedBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const MaybeTensor& weight, const MaybeTensor& bias, Stack stack) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["trained"] = stack[5];
    context->saved_data["group"] = stack[8];
    context->saved_data["layer"] = stack[9];
    context->saved_data["has_bias"] = bias.has_value();
    call_by_name(kForward, stack);
    context->save_for_backward({input, weight.value_or(at::Tensor()), stack[1].toTensor()});
    return stack[0].toTensor();
  }

  static variable_list backward(AutogradContext* context, const variable_list& arriving) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "sync_batch_norm: in a program that is traced it can be differentiated once");
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const c10::IValue weight = saved[1].defined() ? c10::IValue(saved[1]) : c10::IValue();
    Stack stack = {arriving[0],     saved[0],      weight,       saved[2],
                   data["trained"], data["group"], data["layer"]};
    call_by_name(kBackward, stack);
    return {stack[0].toTensor(),
            saved[1].defined() ? stack[1].toTensor() : at::Tensor(),
            data["has_bias"].toBool() ? stack[2].toTensor() : at::Tensor(),
            {}};
  }
};

}  // namespace

at::Tensor like_output(const at::Tensor& input) {
  const at::Tensor dense = without_gaps(input);
  return at::empty_strided_symint(dense.sym_sizes(), dense.sym_strides(), dense.options());
}

at::Tensor trace_with_gradient(const Stack& stack) {
  const Stack own(stack.end() - kNamedArguments, stack.end());
  return TracedBatchNorm::apply(own[0].toTensor(), own[1].toOptional<at::Tensor>(),
                                own[2].toOptional<at::Tensor>(), own);
}

TORCH_LIBRARY_FRAGMENT(ddpscope, library) {
  library.def(
      "_sync_batch_norm_forward(Tensor input, Tensor? weight, Tensor? bias, "
      "Tensor(a!)? running_mean, Tensor(b!)? running_var, bool training, float momentum, "
      "float eps, str group, str layer) -> (Tensor output, Tensor statistics)");
  library.def(
      "_sync_batch_norm_backward(Tensor output_gradient, Tensor input, Tensor? weight, "
      "Tensor statistics, bool trained, str group, str layer) -> (Tensor input_gradient, "
      "Tensor weight_gradient, Tensor bias_gradient)");
}

TORCH_LIBRARY_IMPL(ddpscope, CompositeExplicitAutograd, library) {
  library.impl("_sync_batch_norm_forward",
               torch::CppFunction::makeFromBoxedFunction<&run_forward>());
  library.impl("_sync_batch_norm_backward",
               torch::CppFunction::makeFromBoxedFunction<&run_backward>());
}

TORCH_LIBRARY_IMPL(ddpscope, Meta, library) {
  library.impl("_sync_batch_norm_forward",
               torch::CppFunction::makeFromBoxedFunction<&follow_forward>());
  library.impl("_sync_batch_norm_backward",
               torch::CppFunction::makeFromBoxedFunction<&follow_backward>());
}

}  // namespace ddpscope::batch_norm
