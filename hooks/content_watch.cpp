#include "hooks/content_watch.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>

#include "hooks/capture.h"
#include "hooks/collective_watch.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
struct Piece {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

/// Nothing of memory that cannot be read here, or is in several pieces.
Piece piece_of(const c10::TensorImpl& impl) noexcept {
  if (!impl.is_cpu() || impl.layout() != c10::kStrided || !impl.has_storage() ||
      impl.has_symbolic_sizes_strides() || !impl.is_non_overlapping_and_dense()) {
    return {};
  }
  return {.begin = reinterpret_cast<std::uintptr_t>(impl.data()),
          .bytes = static_cast<std::uint64_t>(impl.numel()) * impl.itemsize()};
}

/// Never 0.
std::uint64_t content_of(const Piece& piece) noexcept {
  constexpr std::uint64_t kWords = 64;
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  const auto* const bytes = reinterpret_cast<const char*>(piece.begin);  // NOLINT
  Hash hash;
  const std::uint64_t words = piece.bytes / kWord;
  const std::uint64_t stride = std::max<std::uint64_t>(1, words / kWords);
  for (std::uint64_t at = 0; at < words; at += stride) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at * kWord, kWord);
    hash.fold(word);
  }
  for (std::uint64_t at = words * kWord; at < piece.bytes; ++at) {
    hash.fold(static_cast<unsigned char>(bytes[at]));
  }
  return hash.value() | 1;
}

bool lies_in(const Piece& piece, const c10::TensorImpl& impl) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(impl.unsafe_storage().data());
  return begin <= piece.begin && piece.begin + piece.bytes <= begin + impl.storage().nbytes();
}

bool overlaps(const CollectiveWrite& write, const c10::TensorImpl& impl) noexcept {
  const ByteRows rows = bytes_of(impl);
  const auto storage = reinterpret_cast<std::uintptr_t>(impl.unsafe_storage().data());
  return write.begin < storage + rows.end && storage + rows.begin < write.begin + write.bytes;
}

bool has_changed_it(const CollectiveWrite& write, const c10::TensorImpl& impl) noexcept {
  const Piece piece{.begin = write.begin, .bytes = write.bytes};
  return write.content != 0 && lies_in(piece, impl) && content_of(piece) != write.content;
}

std::span<const at::Tensor> written_by(const CallFacts& facts) {
  using enum CollectiveKind;
  switch (facts.kind) {
    case kAllReduce:
    case kBroadcast:
    case kReduce:
    case kReduceScatter:
    case kScatter:
    case kReceive:
      return facts.tensors;
    case kAllGather:
      return facts.gathered;
    default:
      return {};
  }
}

bool is_registered(Capture& capture, const at::Tensor& tensor) {
  const auto* const view = torch::autograd::impl::get_view_autograd_meta(tensor);
  const bool is_view = view != nullptr && view->has_bw_view();
  const at::Tensor base = is_view ? view->get_backward_view().base_ : tensor;
  if (base.is_leaf() && base.requires_grad()) return true;
  const TensorSlot* const slot = capture.tensors().known(base);
  return slot != nullptr && slot->buffer;
}

std::uint64_t key_of(const NodeKey& node, const c10::TensorImpl& impl) noexcept {
  Hash hash;
  hash.fold(node.thread);
  hash.fold(node.sequence);
  hash.fold(reinterpret_cast<std::uintptr_t>(&impl));  // the node keeps it, and not its memory
  hash.fold(hash.value() >> 32);                       // the low bits choose the place
  return hash.value() >> 1 | 1;                        // neither 0 nor the largest
}
}  // namespace

void ContentWatch::issued(Capture& capture, const CallFacts& facts, const CollectiveEvent& event) {
  if (!capture.options().values || Capture::watch() == Watch::kNothing) return;
  if (event.group_size < 2 || event.averages) return;
  const Doing by{
      .step = event.at.step, .cycle = event.at.cycle, .module = event.module, .stack = event.stack};
  const std::span<const at::Tensor> tensors = written_by(facts);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_gradient = i < event.gradients_of.size() && event.gradients_of[i] != 0;
    if (is_gradient || !tensors[i].defined()) continue;
    const c10::TensorImpl& impl = *tensors[i].unsafeGetTensorImpl();
    const Piece piece = piece_of(impl);
    if (piece.bytes == 0) continue;
    const std::uint64_t place = next_call_.fetch_add(1, std::memory_order_relaxed);
    calls_.put(place, place,
               {.storage = storage_of(impl),
                .begin = piece.begin,
                .bytes = piece.bytes,
                .content = content_of(piece),
                .number = capture.writes().take_number(),
                .seq = event.seq,
                .kind = static_cast<std::uint64_t>(event.kind),
                .by = by});
    last_call_.put(storage_of(impl), place);
    any_calls_.store(true, std::memory_order_relaxed);
  }
}

std::optional<CollectiveWrite> ContentWatch::written(const c10::TensorImpl& impl,
                                                     std::uint64_t since,
                                                     bool changed) const noexcept {
  const bool is_plain = impl.layout() == c10::kStrided && !impl.has_symbolic_sizes_strides();
  if (!any_calls() || !is_plain || !impl.has_storage()) return std::nullopt;
  const std::uint64_t storage = storage_of(impl);
  std::optional<CollectiveWrite> first;
  const std::uint64_t last = last_call_.of(storage).number;
  for (std::uint64_t place = last; place > 0 && last - place < calls_.size(); --place) {
    const std::optional<CollectiveWrite> write = calls_.find(place, place);
    if (!write.has_value() || write->number < since) break;
    if (write->storage != storage || !overlaps(*write, impl)) continue;
    if (!changed || has_changed_it(*write, impl)) first = write;
  }
  return first;
}

bool ContentWatch::was_written_lately(const c10::TensorImpl& impl,
                                      std::int64_t cycle) const noexcept {
  if (!any_calls()) return false;
  const std::uint64_t place = last_call_.of(storage_of(impl)).number;
  if (place == 0) return false;
  const std::optional<CollectiveWrite> write = calls_.find(place, place);
  return write.has_value() && write->by.cycle + 1 >= cycle;
}

void ContentWatch::saves(Capture& capture, const NodeKey& node, const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const Piece piece = piece_of(impl);
  if (piece.bytes == 0) return;
  const bool is_written = was_written_lately(impl, capture.marker().now().cycle);
  if (!is_written && !(capture.marker().surveying() && is_registered(capture, tensor))) return;
  const std::uint64_t key = key_of(node, impl);
  saved_.put(key, key, content_of(piece));
}

std::optional<bool> ContentWatch::has_changed(const NodeKey& node,
                                              const c10::TensorImpl& impl) const noexcept {
  const Piece piece = piece_of(impl);
  if (piece.bytes == 0) return std::nullopt;
  const std::uint64_t key = key_of(node, impl);
  const std::optional<std::uint64_t> before = saved_.find(key, key);
  return before.has_value() ? std::optional(*before != content_of(piece)) : std::nullopt;
}

}  // namespace ddpscope
