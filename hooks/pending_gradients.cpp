#include "hooks/pending_gradients.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "hooks/capture.h"
#include "hooks/collective_watch.h"
#include "hooks/doing.h"
#include "hooks/gradient_table.h"
#include "hooks/step_marker.h"
#include "hooks/write_scope.h"
#include "model/open_calls.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMostPending = 16384;

struct Bytes {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

struct Pending {
  std::uintptr_t end = 0;
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  StackId issued = 0;
  std::uint64_t thread = 0;
  TensorId parameter = 0;
  bool told = false;
  bool is_earlier = false;  ///< than the backward that runs or ran last
};

struct PendingCalls {
  std::mutex mutex;
  std::map<std::uintptr_t, Pending> by_begin;

  void mark_told(std::uint64_t group, std::uint64_t seq) {
    const std::lock_guard lock(mutex);
    for (auto& [begin, pending] : by_begin) {
      pending.told |= pending.seq == seq && pending.group == group;
    }
  }
};

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

std::optional<Pending> find_any(const Bytes& bytes) {
  if (bytes.begin == bytes.end) return std::nullopt;
  PendingCalls& all = pending_calls();
  const std::lock_guard lock(all.mutex);
  auto next = all.by_begin.lower_bound(bytes.end);
  if (next == all.by_begin.begin()) return std::nullopt;
  const Pending found = std::prev(next)->second;
  return found.end <= bytes.begin ? std::nullopt : std::optional(found);
}

std::optional<Pending> find_at(const Bytes& bytes) {
  const auto found = find_any(bytes);
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
void tell(Capture& capture, const Pending& pending, GradientUse use, std::string op,
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

void PendingGradients::issued(const CollectiveEvent& event, const CallFacts& facts) {
  if (event.waits || event.group_size < 2 || Capture::watch() == Watch::kNothing) return;
  PendingCalls& all = pending_calls();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < facts.tensors.size(); ++i) {
    const TensorId parameter = i < event.gradients_of.size() ? event.gradients_of[i] : 0;
    if (parameter == 0 && !event.averages) continue;
    const Bytes bytes = bytes_in(facts.tensors[i]);
    if (bytes.begin == bytes.end || all.by_begin.size() >= kMostPending) continue;
    all.by_begin.insert_or_assign(bytes.begin, Pending{.end = bytes.end,
                                                       .group = event.group,
                                                       .seq = event.seq,
                                                       .kind = event.kind,
                                                       .issued = event.stack,
                                                       .thread = thread_number(),
                                                       .parameter = parameter});
    any_.store(true, std::memory_order_relaxed);
  }
}

bool PendingGradients::is_reduced_for_another(const at::Tensor& written) {
  if (!any()) return false;
  const auto found = find_any(bytes_in(written));
  return found.has_value() && !found->is_earlier && found->thread != thread_number();
}

bool PendingGradients::ended(std::uint64_t group, std::uint64_t seq) {
  if (!any()) return false;
  PendingCalls& all = pending_calls();
  const std::lock_guard lock(all.mutex);
  bool told = false;
  std::erase_if(all.by_begin, [&](const auto& one) {
    const bool is_its = one.second.seq == seq && one.second.group == group;
    told |= is_its && one.second.told;
    return is_its;
  });
  any_.store(!all.by_begin.empty(), std::memory_order_relaxed);
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
  PendingCalls& all = pending_calls();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_begin, [](const auto& one) { return one.second.is_earlier; });
  for (auto& [begin, pending] : all.by_begin) pending.is_earlier = true;
  any_.store(!all.by_begin.empty(), std::memory_order_relaxed);
}

// On any thread: no backend runs a backward.
void PendingGradients::adding(Capture& capture, const at::Tensor& gradient) {
  if (!any()) return;
  const std::optional<Pending> pending = find_any(bytes_in(gradient));
  if (!pending.has_value() || pending->told || !pending->is_earlier) return;
  tell(capture, *pending, GradientUse::kAdd, "", doing_now(capture));
}

void PendingGradients::written(Capture& capture, const at::Tensor& tensor, std::uint16_t op,
                               const Doing& by) {
  if (!any() || by.optimizer != 0 || LoggedCall::is_inside()) return;
  const std::optional<Pending> pending = find_at(bytes_in(tensor));
  if (!pending.has_value()) return;
  std::string name = writer_base_name(op);
  if (!keeps_values(name)) tell(capture, *pending, GradientUse::kWrite, std::move(name), by);
}

void PendingGradients::written_at(Capture& capture, const void* values, const char* op) {
  if (!any()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(values);
  const std::optional<Pending> pending = find_at({.begin = begin, .end = begin + 1});
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
    const std::optional<Pending> pending = find_at(bytes_in(inputs[i].toTensor()));
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
      const std::optional<Pending> pending = find_at(bytes_in(member.grad()));
      if (!pending.has_value()) continue;
      return tell(capture, *pending, GradientUse::kStep, "", doing_now(capture));
    }
  }
}

}  // namespace ddpscope
