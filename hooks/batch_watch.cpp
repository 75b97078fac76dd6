#include "hooks/batch_watch.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/gradient_table.h"
#include "hooks/inferred_calls.h"
#include "hooks/optimizer_watch.h"
#include "hooks/step_wait.h"
#include "model/hash.h"
#include "model/reduction_event.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMinElements = 16;
constexpr std::int64_t kMaxRead = 256;
constexpr int kMaxTensors = 4;     // positions that never change may be read before the tokens
constexpr int kMaxOperators = 64;  // of one forward that are asked

struct Batch {
  std::mutex mutex;
  Hash hash;
  int tensors = 0;
  int operators = 0;
  std::vector<std::int64_t> shape;
  const char* dtype = "";
};

Batch& batch() {
  static auto* const leaked = new Batch;
  return *leaked;
}

// Whether they vary: equal ones tell no batch from another.
template <class Word>
bool add_elements(Hash& hash, const void* data, std::int64_t elements) {
  const std::int64_t stride = std::max<std::int64_t>(elements / kMaxRead, 1);
  Word first{};
  std::memcpy(&first, data, sizeof first);
  bool vary = false;
  for (std::int64_t i = 0; i < elements; i += stride) {
    Word word;
    std::memcpy(&word, static_cast<const char*>(data) + i * std::int64_t{sizeof(Word)},
                sizeof word);
    hash.fold(static_cast<std::uint64_t>(word) * 0x9E3779B97F4A7C15);
    vary |= word != first;
  }
  return vary;
}

bool add_bits(Hash& hash, const c10::TensorImpl& impl) {
  const void* const data = values_of(impl);
  const std::int64_t elements = impl.numel();
  switch (impl.itemsize()) {
    case 1:
      return add_elements<std::uint8_t>(hash, data, elements);
    case 2:
      return add_elements<std::uint16_t>(hash, data, elements);
    case 4:
      return add_elements<std::uint32_t>(hash, data, elements);
    default:
      return add_elements<std::uint64_t>(hash, data,
                                         elements * static_cast<std::int64_t>(impl.itemsize() / 8));
  }
}

bool is_parameter(const c10::TensorImpl& impl) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl.autograd_meta());
  return impl.requires_grad() && meta != nullptr && meta->grad_fn_ == nullptr;
}

bool is_data(Capture& capture, const at::Tensor& tensor) {
  if (tensor.requires_grad() || tensor.numel() < kMinElements || !is_readable(tensor)) return false;
  const TensorSlot* known = capture.tensors().known(tensor);
  return known == nullptr || !known->buffer.load(std::memory_order_relaxed);
}
}  // namespace

void BatchWatch::see(const OperatorTensors& inputs) noexcept {
  // Without a parameter it may as well make the batch.
  const auto is_leaf = [](const c10::TensorImpl* impl) { return is_parameter(*impl); };
  if (std::ranges::none_of(inputs, is_leaf)) return;
  if (StepWait::is_pending()) begins_.store(true, std::memory_order_relaxed);
  StepWait::see_forward();
  if (Capture::watch() == Watch::kNothing) return awaited_.store(false, std::memory_order_relaxed);
  if (!c10::GradMode::is_enabled() || inside_backward() || inside_optimizer_step()) return;
  as_guest("batch", [&](Capture& capture) {
    Batch& seen = batch();
    const std::lock_guard lock(seen.mutex);
    if (++seen.operators > kMaxOperators) awaited_.store(false, std::memory_order_relaxed);
    for (c10::TensorImpl* impl : inputs) {
      const auto tensor = at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(impl));
      if (!is_data(capture, tensor)) continue;
      if (seen.tensors == 0) {
        seen.shape = impl->sizes().vec();
        seen.dtype = dtype_name(tensor.scalar_type());
      }
      for (const std::int64_t size : impl->sizes())
        seen.hash.fold(static_cast<std::uint64_t>(size));
      if (!add_bits(seen.hash, *impl)) continue;
      if (++seen.tensors == kMaxTensors) awaited_.store(false, std::memory_order_relaxed);
      break;
    }
  });
}

void BatchWatch::see_backward(Capture& capture) {
  awaited_.store(false, std::memory_order_relaxed);
  Batch& seen = batch();
  const std::lock_guard lock(seen.mutex);
  if (seen.tensors == 0) return;
  capture.put_large(BatchEvent{.at = capture.marker().now(),
                               .fingerprint = std::max<std::uint64_t>(seen.hash.value(), 1),
                               .shape = std::move(seen.shape),
                               .dtype = seen.dtype});
  seen.tensors = 0;
}

void BatchWatch::step_ended(const Capture& capture) noexcept {
  Batch& seen = batch();
  const std::lock_guard lock(seen.mutex);
  seen.hash = {};
  seen.tensors = seen.operators = 0;
  awaited_.store(capture.options().values, std::memory_order_relaxed);
}

}  // namespace ddpscope
