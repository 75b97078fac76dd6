#include "hooks/pending_gradients.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "hooks/capture.h"
#include "hooks/collective_watch.h"
#include "hooks/doing.h"
#include "hooks/gradient_table.h"
#include "hooks/pending_calls.h"
#include "hooks/step_marker.h"
#include "hooks/write_scope.h"
#include "model/open_calls.h"

namespace ddpscope {
namespace {
PendingCalls& pending_calls() {
  static auto* const leaked = new PendingCalls;
  return *leaked;
}

Bytes bytes_in(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const auto begin = reinterpret_cast<std::uintptr_t>(values_of(impl));
  if (begin == 0) return {};
  const ByteRows rows = bytes_of(impl);
  return {.begin = begin, .end = begin + (rows.end - rows.begin)};
}

/// Of the thread that asks, and told of nothing yet.
std::optional<PendingCall> find_at(const Bytes& bytes) {
  const auto found = pending_calls().find(bytes);
  const bool is_its_own = found.has_value() && !found->told && found->thread == thread_number();
  return is_its_own && !found->is_earlier ? found : std::nullopt;
}

// Only the layout of the tensor changes, or its allocator learns of a stream.
bool keeps_values(std::string_view op) {
  using namespace std::string_view_literals;
  constexpr std::array kNames = {
      "aten::detach_"sv, "aten::record_stream"sv, "aten::rename_"sv,   "aten::squeeze_"sv,
      "aten::t_"sv,      "aten::transpose_"sv,    "aten::unsqueeze_"sv};
  return std::ranges::find(kNames, op) != kNames.end();
}

// Those of which the first tensor gives no more than its shape and kind.
bool reads_shape_only(std::string_view op) {
  using namespace std::string_view_literals;
  constexpr std::array kBegins = {"aten::is_"sv, "aten::new_"sv, "aten::size"sv, "aten::stride"sv,
                                  "aten::sym_"sv};
  return op.ends_with("_like") || op == "aten::numel" || op == "aten::dim" ||
         std::ranges::any_of(kBegins, [op](auto begin) { return op.starts_with(begin); });
}

// Once: with it all that its call was given is told.
void tell(Capture& capture, const PendingCall& pending, GradientUse use, std::string op,
          const Doing& by) {
  pending_calls().mark_told(pending.group, pending.seq);
  capture.put_large(PendingUseEvent{.at = capture.marker().now(),
                                    .seq = pending.seq,
                                    .group = pending.group,
                                    .kind = pending.kind,
                                    .use = use,
                                    .parameter = pending.parameter,
                                    .op = std::move(op),
                                    .issued = pending.issued,
                                    .by = by});
}
}  // namespace

// NCCL runs the calls of a communicator on one stream, so that a wait for the last one is enough.
void PendingGradients::issued(const CollectiveEvent& event, const CallFacts& facts) {
  if (event.waits || event.group_size < 2 || Capture::watch() == Watch::kNothing) return;
  for (std::size_t i = 0; i < facts.tensors.size(); ++i) {
    const TensorId parameter = i < event.gradients_of.size() ? event.gradients_of[i] : 0;
    if (parameter == 0 && !event.averages) continue;
    pending_calls().add(bytes_in(facts.tensors[i]), {.group = event.group,
                                                     .seq = event.seq,
                                                     .kind = event.kind,
                                                     .issued = event.stack,
                                                     .thread = thread_number(),
                                                     .parameter = parameter,
                                                     .in_order = event.backend == "nccl"});
    any_.store(true);
  }
}

// Another thread may add one meanwhile.
void PendingGradients::look_again() {
  if (!pending_calls().empty()) return;
  any_.store(false);
  if (!pending_calls().empty()) any_.store(true);
}

bool PendingGradients::is_reduced_for_another(const at::Tensor& written) {
  if (!any()) return false;
  const auto found = pending_calls().find(bytes_in(written));
  return found.has_value() && !found->is_earlier && found->thread != thread_number();
}

bool PendingGradients::ended(std::uint64_t group, std::uint64_t seq) {
  if (!any()) return false;
  const bool told = pending_calls().end(group, seq);
  look_again();
  return told;
}

void PendingGradients::told_otherwise(const void* work) noexcept {
  if (!any()) return;
  as_guest("collective", [&](Capture&) {
    const auto call = open_calls().of(work);
    if (call.has_value()) ended(call->record.group, call->record.seq);
  });
}

void PendingGradients::see_backward() {
  if (!any()) return;
  pending_calls().backward_begins();
  look_again();
}

// On any thread: no backend runs a backward.
void PendingGradients::adding(Capture& capture, const at::Tensor& gradient) {
  if (!any()) return;
  const std::optional<PendingCall> pending = pending_calls().find(bytes_in(gradient));
  if (!pending.has_value() || pending->told || !pending->is_earlier) return;
  tell(capture, *pending, GradientUse::kAdd, "", doing_now(capture));
}

void PendingGradients::written(Capture& capture, const at::Tensor& tensor, std::uint16_t op,
                               const Doing& by) {
  if (!any() || by.optimizer != 0 || LoggedCall::is_inside()) return;
  const std::optional<PendingCall> pending = find_at(bytes_in(tensor));
  if (!pending.has_value()) return;
  std::string name = writer_base_name(op);
  if (!keeps_values(name)) tell(capture, *pending, GradientUse::kWrite, std::move(name), by);
}

void PendingGradients::written_at(Capture& capture, const void* values, const char* op) {
  if (!any()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(values);
  const std::optional<PendingCall> pending = find_at({.begin = begin, .end = begin + 1});
  if (pending.has_value()) {
    tell(capture, *pending, GradientUse::kWrite, op, doing_now(capture));
  }
}

void PendingGradients::see_operator(Capture& capture, const at::RecordFunction& function) {
  if (!any() || LoggedCall::is_inside()) return;
  const std::string_view op = function.name();
  const auto schema = function.operator_schema();
  if (!schema.has_value() || !op.starts_with("aten::") || reads_shape_only(op)) return;
  const auto inputs = function.inputs();
  const std::size_t count = std::min(inputs.size(), schema->arguments().size());
  for (std::size_t i = 0; i < count; ++i) {
    // Otherwise the operator writes it, or makes a view of it.
    if (schema->arguments()[i].alias_info() != nullptr || !inputs[i].isTensor()) continue;
    const std::optional<PendingCall> pending = find_at(bytes_in(inputs[i].toTensor()));
    if (!pending.has_value()) continue;
    return tell(capture, *pending, GradientUse::kRead, std::string(op), doing_now(capture));
  }
}

void PendingGradients::stepping(Capture& capture,
                                const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  if (!any()) return;
  for (const auto& group : groups) {
    for (const at::Tensor& member : group.params()) {
      if (!member.defined() || !member.is_leaf()) continue;
      const std::optional<PendingCall> pending = find_at(bytes_in(member.grad()));
      if (!pending.has_value()) continue;
      return tell(capture, *pending, GradientUse::kStep, "", doing_now(capture));
    }
  }
}

}  // namespace ddpscope
