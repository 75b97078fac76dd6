#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "hooks/tensor_registry.h"
#include "model/call_log.h"
#include "model/hot_code.h"
#include "model/tree_event.h"

namespace ddpscope {

class Capture;

/// What a tensor in a collective is of.
struct CallOwner {
  NameId name = 0;           ///< in the call log; 0: not known
  TensorId tensor = 0;       ///< of a registered tensor that lies there
  TensorId gradient_of = 0;  ///< of the parameter whose gradient lies there
};

/// Addresses that were added, and some others. Any thread; nothing is ever taken out.
class SeenAddresses {
 public:
  void add(const void* address) noexcept {
    const std::size_t bit = bit_of(address);
    words_[bit / 64].fetch_or(std::uint64_t{1} << bit % 64, std::memory_order_relaxed);
  }
  bool may_have(const void* address) const noexcept {
    const std::size_t bit = bit_of(address);
    return (words_[bit / 64].load(std::memory_order_relaxed) >> bit % 64 & 1) != 0;
  }

 private:
  static constexpr int kBits = 15;
  static std::size_t bit_of(const void* address) noexcept {
    return (reinterpret_cast<std::uintptr_t>(address) * 0x9E3779B97F4A7C15) >> (64 - kBits);
  }
  std::array<std::atomic<std::uint64_t>, (1 << kBits) / 64> words_{};
};

/// Finds the registered tensor, or the gradient of one, whose values a collective reads, and the
/// numbers of their names in the call log. Any thread.
class CallNames {
 public:
  void tree_told(const TreeEvent& tree);
  /// Where a registered tensor lies now.
  void lies_at(TensorId id, const at::Tensor& tensor);
  DDPSCOPE_HOT CallOwner owner_of(Capture& capture, const at::Tensor& tensor);
  /// The same of so many elements that begin there.
  CallOwner owner_at(Capture& capture, const void* values, std::int64_t elements);
  DDPSCOPE_HOT NameId module(Capture& capture, ModuleId module);
  /// Whether so many elements are a good part of the gradients of some model, or all of a module.
  bool is_bucket(std::int64_t elements);
  /// The name of a buffer of gradients.
  NameId bucket(CallLog& log) noexcept {
    return once(bucket_, log, [] { return "bucket"; });
  }
  NameId dtype(CallLog& log, c10::ScalarType type) noexcept {
    return once(dtypes_[static_cast<std::size_t>(type)], log, [&] { return dtype_name(type); });
  }

 private:
  struct Named {
    std::string path;
    NameId own = 0;
  };
  using Numbered = std::atomic<NameId>;  // 0: not asked yet
  static constexpr std::int64_t kBucketElements = 1 << 16;
  template <class Text>
  static NameId once(Numbered& known, CallLog& log, const Text& text) noexcept {
    NameId name = known.load(std::memory_order_relaxed);
    if (name == 0) known.store(name = log.name(text()), std::memory_order_relaxed);
    return name;
  }
  NameId name_of(CallLog& log, TensorId id);
  DDPSCOPE_HOT NameId name_of_gradient(CallLog& log, TensorSlot& slot);
  /// The registered tensor that is this object or has its values there.
  TensorId registered_as(Capture& capture, const at::Tensor& tensor, const void* values);
  TensorId registered_at(Capture& capture, const void* values);
  DDPSCOPE_HOT CallOwner owner(Capture& capture, const at::Tensor* tensor, const void* values,
                               std::int64_t elements);

  SeenAddresses seen_;  // of registered tensors: objects and values
  std::mutex mutex_;
  std::unordered_map<TensorId, Named> tensors_;
  std::unordered_map<const void*, TensorId> by_values_;
  std::unordered_map<ModuleId, Named> modules_;
  std::unordered_set<std::int64_t> of_modules_;  // trainable elements of one, in several tensors
  std::atomic<std::int64_t> trainable_ = 0;      // elements of the largest model
  Numbered bucket_ = 0;
  std::array<Numbered, static_cast<std::size_t>(c10::ScalarType::NumOptions)> dtypes_{};
};

DDPSCOPE_HOT CallNames& call_names() noexcept;

}  // namespace ddpscope
