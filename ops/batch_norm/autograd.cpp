#include "ops/batch_norm/autograd.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "ops/batch_norm/layout.h"
#include "ops/batch_norm/second_backward.h"

namespace ddpscope::batch_norm {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

OptionalTensor if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

void keep(AutogradContext* context, const CallPtr& call) {
  context->saved_data["call"] = c10::IValue::make_capsule(call);
}

CallPtr kept_call(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
}

/// Gives `found` as it is. That it hangs on `read` in the graph lets a third derivative end here.
struct SyncBatchNormThirdBackward : Function<SyncBatchNormThirdBackward> {
  static variable_list forward(AutogradContext*, at::TensorList found, at::TensorList /*read*/) {
    variable_list same;
    for (const at::Tensor& tensor : found) same.push_back(tensor.alias());
    return same;
  }
  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK(false, "sync_batch_norm can be differentiated twice, not three times");
  }
};

/// The backward as a node, for programs that differentiate it again.
struct SyncBatchNormBackward : Function<SyncBatchNormBackward> {
  static variable_list forward(AutogradContext* context, const at::Tensor& dy, const at::Tensor& x,
                               const OptionalTensor& weight, const CallPtr& call) {
    const NormTensors tensors = {x, weight.value_or(at::Tensor()), call->statistics};
    Gradients gradients = gradients_of(tensors, dy, *call, true);
    keep(context, call);
    context->save_for_backward({dy, x, tensors.weight, gradients.sums});
    return {gradients.input, gradients.weight, gradients.bias};
  }

  static variable_list backward(AutogradContext* context, const variable_list& arriving) {
    const variable_list saved = context->get_saved_variables();
    SecondGradients gradients;
    {
      const at::NoGradGuard no_grad;
      const CallPtr call = kept_call(context);
      const FirstBackward first = {{saved[1], saved[2], call->statistics}, saved[0], saved[3]};
      gradients = second_backward_of(first, {arriving[0], arriving[1], arriving[2]}, *call);
    }
    variable_list found = {gradients.dy, gradients.x, gradients.weight};
    if (at::GradMode::is_enabled()) {
      variable_list read = {saved[0], saved[1], arriving[0], arriving[1], arriving[2]};
      if (saved[2].defined()) read.push_back(saved[2]);
      found = SyncBatchNormThirdBackward::apply(at::TensorList(found), at::TensorList(read));
    }
    return {found[0], found[1], saved[2].defined() ? found[2] : at::Tensor(), {}};
  }
};

struct Forward {
  CallPtr call;
  ForwardOnDevice on_device;
};

at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const Forward& forward) {
  const NormTensors tensors = {x, weight, forward.call->statistics};
  if (x.is_cpu()) return normalize_tensor(tensors, bias);
  return normalize_on_device(tensors, bias, forward.on_device, *forward.call,
                             device::current_place(x.device()));
}

/// Also where a derivative is carried forwards, which the node refuses.
bool needs_node(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  return (at::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(0).defined();
}

struct SyncBatchNorm : Function<SyncBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const OptionalTensor& weight, const OptionalTensor& bias,
                            const Forward& forward) {
    keep(context, forward.call);
    context->saved_data["has_bias"] = bias.has_value();
    const at::Tensor scale = weight.value_or(at::Tensor());
    context->save_for_backward({x, scale});
    return normalized(x, scale, bias.value_or(at::Tensor()), forward);
  }

  static variable_list backward(AutogradContext* context, const variable_list& arriving) {
    const variable_list saved = context->get_saved_variables();
    const CallPtr call = kept_call(context);
    const NormTensors tensors = {saved[0], saved[1], call->statistics};
    const at::Tensor dy = in_layout(in_memory(arriving[0]), shape_of(tensors.x).layout);
    variable_list found;
    if (at::GradMode::is_enabled()) {
      found = SyncBatchNormBackward::apply(dy, tensors.x, if_defined(tensors.weight), call);
    } else {
      const Gradients gradients = gradients_of(tensors, dy, *call, context->needs_input_grad(0));
      found = {gradients.input, gradients.weight, gradients.bias};
    }
    const bool has_bias = context->saved_data["has_bias"].toBool();
    return {found[0],
            tensors.weight.defined() ? found[1] : at::Tensor(),
            has_bias ? found[2] : at::Tensor(),
            {}};
  }
};

}  // namespace

Gradients gradients_of(const NormTensors& tensors, const at::Tensor& dy, const Call& call,
                       bool needs_input) {
  if (tensors.x.is_cpu()) return backward_of(tensors, dy, call, needs_input);
  return backward_on_device(tensors, dy, call, device::current_place(tensors.x.device()),
                            needs_input);
}

at::Tensor normalize_in_graph(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              const CallPtr& call, const ForwardOnDevice& on_device) {
  const Forward forward = {call, on_device};
  if (!needs_node(x) && !needs_node(weight) && !needs_node(bias)) {
    const at::NoGradGuard no_grad;
    return normalized(x, weight, bias, forward);
  }
  return SyncBatchNorm::apply(x, if_defined(weight), if_defined(bias), forward);
}

}  // namespace ddpscope::batch_norm
