#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/backward_event.h"
#include "model/collective_event.h"
#include "model/hot_code.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// What capture keeps of one tensor object: its id, a weak reference so that the address is not
/// reused while the id is in use, and what its gradient was when it was last seen.
/// Slots are recycled and never freed, so a stale pointer to one reads old numbers, not freed
/// memory.
struct TensorSlot {
  std::atomic<const c10::TensorImpl*> impl{nullptr};
  std::atomic<TensorId> id{0};
  std::atomic<bool> announced{false};
  std::atomic<bool> computed{false};  ///< from trainable tensors or buffers, in a survey
  std::atomic<bool> buffer{false};    ///< of an attached model
  std::atomic<const c10::TensorImpl*> gradient{nullptr};
  std::atomic<std::uint32_t> gradient_version{0};
  std::atomic<const void*> gradient_values{nullptr};  ///< where they lie, as last seen
  std::atomic<NameId> gradient_name{0};               ///< in the call log; 0: not asked yet
  std::atomic<std::uint64_t> next_write{0};           ///< when it was last seen; 0: it was not
  std::atomic<bool> is_added_to{false};  ///< the gradient, since a step of an optimizer
  // The tensor itself when a gradient was last added.
  std::atomic<std::uint32_t> version{0};
  std::atomic<const void*> values{nullptr};
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> weak;  // guarded by the table's mutex
};

/// Gives tensors ids that are never reused. Holds weak references only.
class TensorRegistry {
 public:
  TensorRegistry();
  /// The slot of a defined tensor; a hit in the thread's own cache takes no lock.
  TensorSlot& slot(const at::Tensor& tensor);
  /// Its slot, if it has one; null otherwise.
  const TensorSlot* known(const at::Tensor& tensor);
  /// Whether it is a buffer, or a surveyed operator computed it from trainable tensors or buffers.
  bool is_followed(const at::Tensor& tensor);
  /// The tensor of a slot, undefined once it has died. For the length of a hook only.
  DDPSCOPE_HOT at::Tensor lock(const TensorSlot& slot);
  /// The same by its id.
  at::Tensor tensor(TensorId id);
  /// Frees the slots whose tensors have died.
  void sweep();
  /// Of `ids`, those whose tensors are alive.
  std::vector<TensorId> alive(const std::vector<TensorId>& ids);

 private:
  TensorSlot& find_or_add(const at::Tensor& tensor);
  void sweep_locked();

  std::mutex mutex_;
  TensorId last_id_ = 0;
  std::deque<TensorSlot> slots_;
  std::vector<TensorSlot*> free_;
  std::unordered_map<const c10::TensorImpl*, TensorSlot*> by_impl_;
  std::unordered_map<TensorId, TensorSlot*> by_id_;
  std::size_t sweep_at_ = 4096;
};

/// `float16`, `int64`: the word for a type in all events. LibTorch's own for a rare one.
const char* dtype_name(c10::ScalarType type);

/// Shape, dtype, device and storage as LibTorch holds them; runs no operator.
TensorInfo describe(const at::Tensor& tensor, TensorId id);

/// Where a tensor's values lie: its storage object and the first byte in it; 0 where there is none.
struct Memory {
  std::uint64_t storage = 0;
  std::int64_t offset_bytes = 0;
};
Memory memory_of(const at::Tensor& tensor);

/// 0 for tensors without a version, such as those of inference mode.
std::uint32_t version_of(const c10::TensorImpl& impl);

/// Whether the values lie in one piece of memory, without gaps.
bool is_dense(const at::Tensor& tensor);
/// Whether they can be read there: dense, and on the host.
bool is_readable(const at::Tensor& tensor);

/// Whether a leaf has a gradient; false for other tensors.
bool has_gradient(const at::Tensor& tensor);

/// Remembers the gradient that `tensor` has now, so that `gradient_before` can tell a later change.
/// `next_write`: the next number of the write log.
void remember_gradient(TensorSlot& slot, const at::Tensor& tensor,
                       std::uint64_t next_write) noexcept;

/// What the gradient of `tensor` is now, compared with what was remembered. `test_zero` also reads
/// values: of dense CPU gradients, up to the first that is not zero.
GradientBefore gradient_before(const TensorSlot& slot, const at::Tensor& tensor, bool test_zero);

}  // namespace ddpscope
