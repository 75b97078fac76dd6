#include "hooks/op_callbacks.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/data_makers.h"
#include "hooks/doing.h"
#include "hooks/error_watch.h"
#include "hooks/gradient_flow.h"
#include "hooks/gradient_scaling.h"
#include "hooks/idle_rest.h"
#include "hooks/left_open.h"
#include "hooks/loop_phase.h"
#include "hooks/op_inputs.h"
#include "hooks/operator_recording.h"
#include "hooks/optimizer_watch.h"
#include "hooks/outputs_of_step.h"
#include "hooks/pending_gradients.h"
#include "hooks/random_state.h"
#include "hooks/risky_inputs.h"
#include "hooks/step_wait.h"
#include "hooks/survey_outputs.h"
#include "hooks/taken_gradients.h"

namespace ddpscope {
namespace {
// Per thread: how deep operators are nested, and which result was recorded last. A composite
// operator returns the very result of the one inside it that autograd knows; only that is recorded.
struct Nesting {
  int depth = 0;
  const at::RecordFunction* outermost = nullptr;  // while `depth` is above 0, with its context
  const at::ObserverContext* context = nullptr;
  const c10::TensorImpl* recorded = nullptr;
  const void* recorded_node = nullptr;
};
thread_local Nesting nesting;

struct OpContext final : at::ObserverContext {
  std::vector<TensorId> inputs;
  std::vector<double> constants;
  double factor = 1;
  std::optional<std::int64_t> dim;
  bool depends = false;  // on trainable tensors, with a gradient path or without, or on buffers
  std::optional<RiskyInputEvent> risk;
  bool by_zero = false;
  bool brings_values = false;    // an input was computed, and has no gradient path
  bool reads_gradients = false;  // or what was computed from them, before they are used
  std::uint64_t taken_from = 0;  // a gradient: its memory
  TensorId cast_gradient_of = 0;
  bool hides_gradient = false;  // an input has no gradient path, and its memory has
  bool mixes_shapes = false;    // of its first two tensors
  WeakInputs all_inputs;        // of the outermost operator
  WeakInputs written;           // by one that returns nothing
  DataMakers::Begun data;
  std::uint64_t waits_since = 0;  // ticks; while data is waited for
  int exceptions = std::uncaught_exceptions();
};

// LibTorch's steps run with grad mode off, and what they call as a closure with grad mode on.
bool is_forward() {
  return !inside_backward() && (!inside_optimizer_step() || c10::GradMode::is_enabled());
}

bool mixes_shapes(const at::RecordFunction& function) {
  const auto inputs = function.inputs();
  if (inputs.size() < 2 || !inputs[0].isTensor() || !inputs[1].isTensor()) return false;
  const at::Tensor& a = inputs[0].toTensor();
  const at::Tensor& b = inputs[1].toTensor();
  return a.defined() && b.defined() && a.dim() > 0 && b.dim() > 0 && a.sizes() != b.sizes();
}

void note_inputs(Capture& capture, const at::RecordFunction& function, OpContext& context) {
  const SurveyOutputs& outputs = SurveyOutputs::here();
  for_each_tensor(function.inputs(), [&](const at::Tensor& tensor) {
    const bool has_path = tensor.unsafeGetTensorImpl()->requires_grad();
    const bool follows = has_path || capture.tensors().is_followed(tensor);
    context.brings_values |= follows && !has_path && capture.tensors().slot(tensor).computed;
    context.hides_gradient |= !follows && outputs.hides_gradient(tensor);
    context.depends |= follows || context.hides_gradient;
  });
  if (!context.depends) return;
  if (capture.options().values && c10::GradMode::is_enabled()) context.risk = risk_of(function);
  context.mixes_shapes = mixes_shapes(function);
  context.by_zero = multiplies_by_zero(function);
  context.constants = constants_of(function);
  context.factor = factor_of(function);
  context.dim = softmax_dim(function);
  context.written = written_by_call(function);
  for_each_tensor(function.inputs(), [&](const at::Tensor& tensor) {
    context.inputs.push_back(capture.announce(tensor));
  });
}

// Random numbers; a program that makes its data up waits for nothing else.
bool draws(const at::RecordFunction& function) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "aten::rand", "aten::normal", "aten::uniform", "aten::bernoulli", "aten::exponential"};
  const std::string_view name = function.name();
  return std::ranges::any_of(kNames, [name](auto begin) { return name.starts_with(begin); });
}

// The engine's range around a node: what the node calls are the operators.
bool is_range_of_engine(const at::RecordFunction& function) {
  return std::string_view(function.name()).starts_with("autograd::engine::");
}

std::unique_ptr<at::ObserverContext> op_starts(const at::RecordFunction& function) {
  if (is_range_of_engine(function)) return nullptr;
  ++nesting.depth;
  auto context = std::make_unique<OpContext>();
  if (nesting.depth == 1) {
    nesting.outermost = &function;
    nesting.context = context.get();
  }
  as_guest("op", [&](Capture& capture) {
    if (nesting.depth == 1) {
      nesting.recorded = nullptr;  // its address may be in use again
      context->all_inputs = weak_inputs(function);
      forget_error_text();
    }
    if (is_forward()) {
      context->reads_gradients = GradientFlow::see_operator(capture, function);
      note_inputs(capture, function, *context);
      if (nesting.depth == 1) {
        PendingGradients::see_operator(capture, function);
        see_scaled_copy(capture, function);
        context->cast_gradient_of = cast_gradient(capture, function);
        see_random_operator(capture, function);
        context->taken_from = TakenGradients::read_by(capture, function);
        if (capture.options().values) context->data = DataMakers::begin(capture, function);
      }
    }
    if (nesting.depth == 1 && StepWait::is_pending()) context->waits_since = StepWait::own_ticks();
  });
  return context;
}

bool already_recorded(const at::Tensor& output) {
  const void* node = node_of(output);
  const bool again =
      nesting.recorded == output.unsafeGetTensorImpl() && nesting.recorded_node == node;
  nesting.recorded = output.unsafeGetTensorImpl();
  nesting.recorded_node = node;
  return again;
}

// A view that is made with grad mode off says what its base says.
bool may_end_path(const OpContext& context, const OpEvent& event) {
  return context.hides_gradient || !event.grad_mode ||
         std::ranges::none_of(event.outputs, &TensorInfo::requires_grad);
}

// What a loss is made with.
bool is_of_loss(const OpContext& context, std::string_view op) {
  return op.ends_with("log_softmax") || op.find("_loss") != op.npos ||
         op.find("cross_entropy") != op.npos ||
         (context.mixes_shapes && (op == "aten::sub" || op == "aten::mul" || op == "aten::add"));
}

// It, or a view of it, which has no memory of its own.
bool is_of_parameter(const at::Tensor& tensor) {
  const at::TensorBase& owner = tensor.is_view() ? tensor._base() : tensor;
  return owner.is_leaf() && owner.requires_grad();
}

void tell_risk(Capture& capture, const OpEvent& event, RiskyInputEvent& risk) {
  if (event.outputs.empty() || !event.outputs[0].requires_grad) return;
  // Added in a wider type, the constant is not lost.
  if (risk.rule == "epsilon_lost" && risk.dtype != event.outputs[0].dtype) return;
  risk.at = event.at;
  risk.module = event.module;
  risk.output = event.outputs[0].id;
  capture.put_large(std::move(risk));
}

void record(Capture& capture, const at::RecordFunction& function, OpContext& context,
            bool is_known) {
  if (c10::GradMode::is_enabled()) LoopPhase::see_forward();
  OpEvent event{.at = capture.marker().now(),
                .op = function.name(),
                .module = ModuleCalls::innermost(),
                .grad_mode = c10::GradMode::is_enabled(),
                .by_zero = context.by_zero,
                .inputs = std::move(context.inputs),
                .outputs = {},
                .constants = std::move(context.constants),
                .factor = context.factor,
                .dim = context.dim,
                .read = number_read(function)};
  SurveyOutputs& outputs = SurveyOutputs::here();
  outputs.begin_step_if_new(event.at.step);
  for_each_tensor(function.outputs(), [&](const at::Tensor& tensor) {
    TensorSlot& slot = capture.tensors().slot(tensor);
    slot.announced = true;  // the event tells it
    slot.computed = true;
    event.outputs.push_back(describe(tensor, slot.id));
    outputs.add(tensor, slot.id);
    if (is_known || slot.buffer || is_of_parameter(tensor)) return;
    OutputsOfStep::here().add(tensor, event.module, event.op);
  });
  for (const auto& weak : context.written) {
    const auto alive = weak.lock();
    if (!alive) continue;
    const at::Tensor tensor(alive);
    event.outputs.push_back(describe(tensor, capture.tensors().slot(tensor).id));
  }
  if (context.risk.has_value()) tell_risk(capture, event, *context.risk);
  const bool has_line =
      is_of_loss(context, event.op) || (nesting.depth == 0 && may_end_path(context, event));
  if (has_line) event.stack = doing_now(capture).stack;
  capture.put_large(std::move(event));
}

void tell_new(Capture& capture, const at::RecordFunction& function, OpContext& op,
              bool is_outermost) {
  bool known_to_autograd = false;
  bool again = false;
  for_each_tensor(function.outputs(), [&](const at::Tensor& output) {
    if (known_to_autograd || again) return;
    known_to_autograd = node_of(output) != nullptr;
    if (known_to_autograd || is_outermost) again = already_recorded(output);
  });
  // Inside a composite operator, views of what has no gradient path are not told: the operator as
  // a whole tells what its result was computed from.
  const bool tells_inputs = again && is_outermost && op.brings_values;
  if (tells_inputs || (!again && (known_to_autograd || is_outermost))) {
    record(capture, function, op, /*is_known=*/again);
  }
}

void tell_failed(Capture& capture, const at::RecordFunction& function, const OpContext& context) {
  capture.modules().look_again(capture, /*step_ended=*/false);  // a model may have been moved
  capture.put_large(OperatorFailedEvent{.at = capture.marker().now(),
                                        .op = function.name(),
                                        .message = last_error_text(),
                                        .module = ModuleCalls::innermost(),
                                        .in_backward = inside_backward(),
                                        .inputs = describe_inputs(capture, context.all_inputs)});
}

void op_ends(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* const op = static_cast<OpContext*>(context);
  if (op == nullptr) return;
  const bool is_outermost = --nesting.depth == 0;
  if (op->waits_since > 0) {
    StepWait::add_operator(StepWait::own_ticks() - op->waits_since, draws(function));
  }
  if (std::uncaught_exceptions() > op->exceptions) {
    if (!is_outermost) return;
    as_guest("op", [&](Capture& capture) { tell_failed(capture, function, *op); });
    return;
  }
  if (op->reads_gradients) {
    as_guest("op", [&](Capture&) { GradientFlow::see_result(function); });
  }
  if (op->cast_gradient_of != 0) {
    as_guest("op", [&](Capture&) { see_cast(function, op->cast_gradient_of); });
  }
  if (op->taken_from != 0) {
    as_guest("op", [&](Capture& capture) {
      TakenGradients::see_result(capture, function, op->taken_from);
    });
  }
  if (op->data.matters() && is_outermost && is_forward()) {
    as_guest("op", [&](Capture& capture) {
      DataMakers::end(capture, function, op->data, op->all_inputs);
    });
  }
  if (!is_forward()) return;
  if (is_outermost) IdleRest::see_operator();
  if (!op->depends) return;
  as_guest("op", [&](Capture& capture) { tell_new(capture, function, *op, is_outermost); });
}

constinit OperatorRecording survey(&op_starts, &op_ends);
}  // namespace

void tell_operator_left_open() noexcept {
  if (nesting.depth == 0) return;
  as_guest("op", [&](Capture& capture) {
    tell_failed(capture, *nesting.outermost, static_cast<const OpContext&>(*nesting.context));
  });
}

void survey_operators(bool on) noexcept try { survey.set(on); } catch (...) {
  if (Capture* capture = Capture::active()) capture->fault("op");
}

}  // namespace ddpscope
