#include "hooks/write_scope.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>

#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/grad_mode_watch.h"
#include "hooks/pending_gradients.h"

namespace ddpscope {
namespace {
using torch::autograd::CreationMeta;
using torch::autograd::Edge;

// Inside the kernels of autograd an operator only makes the result of the one that was called.
bool below_autograd() {
  return c10::impl::tls_local_dispatch_key_set().excluded_.has_any(c10::autograd_dispatch_keyset);
}

ViewOrigin origin_of(CreationMeta meta) {
  switch (meta) {
    case CreationMeta::MULTI_OUTPUT_NODE:
      return ViewOrigin::kMultiOutput;
    case CreationMeta::IN_CUSTOM_FUNCTION:
      return ViewOrigin::kCustomFunction;
    case CreationMeta::NO_GRAD_MODE:
    case CreationMeta::INFERENCE_MODE:
      return ViewOrigin::kGradModeOff;
    default:
      return ViewOrigin::kSingle;
  }
}

/// The node of several outputs behind views of one of them; `made` where there is none.
Edge several_behind(Edge made) {
  constexpr int kMostViews = 64;
  Edge behind = made;
  for (int i = 0; i < kMostViews && behind.is_valid() && behind.function->num_inputs() == 1; ++i) {
    if (behind.function->num_outputs() == 0) return made;
    behind = behind.function->next_edge(0);
  }
  return behind.is_valid() && behind.function->num_inputs() > 1 ? behind : made;
}

void add_creator(Capture& capture, const at::Tensor& view, FailedWriteEvent& event) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(view);
  // Not `view.grad_fn()`: that makes a new node for a view whose base was written.
  if (meta == nullptr || meta->grad_fn_ == nullptr) return;
  Edge made(meta->grad_fn_, meta->output_nr_);
  if (event.origin == ViewOrigin::kMultiOutput) made = several_behind(std::move(made));
  event.of_part = made.function != meta->grad_fn_;
  event.creator = made.function->name();
  event.output_index = made.input_nr;
  event.outputs = static_cast<std::int64_t>(made.function->num_inputs());
  const NodeKey node{made.function->thread_id(), made.function->sequence_nr()};
  if (const auto birth = capture.nodes().find(node)) event.created = birth->by.unpacked();
}

bool describe_view(Capture& capture, const at::Tensor& tensor, FailedWriteEvent& event) {
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  event.of_leaf = tensor.is_leaf();
  event.requires_grad = tensor.requires_grad();
  if (view == nullptr || !view->has_bw_view()) return event.requires_grad;
  const at::Tensor& base = view->get_backward_view().base_;
  event.is_view = true;
  event.origin = origin_of(view->get_creation_meta());
  event.base = describe(base, capture.announce(base));
  event.of_leaf = base.is_leaf();
  event.requires_grad |= base.requires_grad();
  add_creator(capture, tensor, event);
  return event.requires_grad;
}
}  // namespace

std::string writer_base_name(std::uint16_t op) {
  const std::string_view name = writer_name(op);
  const std::size_t dot = name.find('.');
  std::string base(name.substr(0, dot));
  // As programs call it: `torch::mul_out`.
  return dot != std::string_view::npos && name.ends_with("out") ? base + "_out" : base;
}

constinit thread_local int WriteScope::depth_ = 0;
constinit thread_local const WriteScope* WriteScope::outermost_here_ = nullptr;

void WriteScope::tell_left_open() noexcept {
  if (depth_ > 0 && !outermost_here_->returned_) outermost_here_->ended();
}

void RestingWriters::begin() noexcept {
  if (Capture::watch() != Watch::kNothing ||
      hook_state.writers_rest.load(std::memory_order_relaxed))
    return;
  const Capture* const capture = Capture::active();
  // The forward of another thread may fail meanwhile.
  if (capture == nullptr || !capture->marker().has_one_thread()) return;
  hook_state.writers_rest.store(true, std::memory_order_relaxed);
  writer_hooks().rest();
}

void RestingWriters::wake() noexcept {
  hook_state.writers_rest.store(false, std::memory_order_relaxed);
  writer_hooks().wake();
}

void WriteScope::ended() const noexcept {
  const bool is_watched = Capture::watch() != Watch::kNothing;
  if (is_watched) {
    let_rest();
  } else if (hook_state.writers_rest.load(std::memory_order_relaxed)) {
    // In watched cycles it is part of one that rests now.
    if (HookGroup* const group = let_rest()) group->rest();
  }
  if ((returned_ && !is_watched) || below_autograd()) return;
  if (returned_) {
    record();
  } else {
    tell_failed();
  }
}

template <class Visit>
void WriteScope::for_each(Visit&& visit) const {
  for (std::size_t i = 0; i < count_; ++i) visit(*tensors_[i]);
  for (std::size_t i = 0; i < list_count_; ++i) {
    for (const at::Tensor& tensor : *lists_[i]) visit(tensor);
  }
}

void WriteScope::record() const noexcept {
  as_observer(
      "write",
      [&](Capture& capture) {
        const Doing by = doing_now(capture);
        for_each([&](const at::Tensor& tensor) {
          capture.writes().put(tensor, op_, by);
          PendingGradients::written(capture, tensor, op_, by);
        });
      },
      Timed::kSampled);
}

void WriteScope::tell_failed() const noexcept {
  if (!c10::GradMode::is_enabled()) return;
  as_guest("write", [&](Capture& capture) {
    for_each([&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      FailedWriteEvent event{
          .at = capture.marker().now(), .op = writer_base_name(op_), .by = doing_now(capture)};
      event.after_empty_guard = empty_guard_just_ended(capture.writes());
      if (!describe_view(capture, tensor, event)) return;
      event.tensor = describe(tensor, capture.announce(tensor));
      capture.put_large(std::move(event));
    });
  });
}

}  // namespace ddpscope
