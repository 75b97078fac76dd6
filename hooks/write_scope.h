#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "hooks/capture.h"
#include "hooks/hook_rest.h"
#include "hooks/near_tls.h"

namespace ddpscope {

/// One call of an operator that writes some of its arguments. What the program called is recorded
/// when it has returned; what that calls itself, and what autograd runs below, is part of it.
class WriteScope {
 public:
  explicit WriteScope(std::uint16_t op) noexcept : op_(op), outermost_(depth_++ == 0) {
    if (outermost_) outermost_here_ = this;
  }
  ~WriteScope() noexcept {
    --depth_;
    if (outermost_ && (!returned_ || Capture::watch() != Watch::kNothing ||
                       hook_state.writers_rest.load(std::memory_order_relaxed))) {
      ended();
    }
  }
  WriteScope(const WriteScope&) = delete;
  WriteScope& operator=(const WriteScope&) = delete;

  bool is_outermost() const noexcept { return outermost_; }
  /// Before the scope ends, else the operator threw. Asking the runtime for that takes longer.
  void returned() noexcept { returned_ = true; }
  void writes(const at::Tensor& tensor) noexcept {
    if (count_ < tensors_.size()) tensors_[count_++] = &tensor;
  }
  void writes(const std::optional<at::Tensor>& tensor) noexcept {
    if (tensor.has_value()) writes(*tensor);
  }
  void writes(const at::TensorList& list) noexcept {
    if (list_count_ < lists_.size()) lists_[list_count_++] = &list;
  }

  /// The call of this thread that an exception leaves which nobody catches; on `std::terminate`.
  static void tell_left_open() noexcept;

 private:
  void ended() const noexcept;
  HookGroup* let_rest() const noexcept;
  void record() const noexcept;
  void tell_failed() const noexcept;
  template <class Visit>
  void for_each(Visit&& visit) const;

  static DDPSCOPE_NEAR constinit thread_local int depth_;
  static DDPSCOPE_NEAR constinit thread_local const WriteScope* outermost_here_;  // if `depth_` > 0

  std::uint16_t op_;
  bool outermost_;
  bool returned_ = false;
  std::uint32_t count_ = 0;
  std::uint32_t list_count_ = 0;
  std::array<const at::Tensor*, 8> tensors_;  // the first `count_`
  std::array<const at::TensorList*, 5> lists_;
};

/// The operators that write an argument, by their place in the list of writers.
const char* writer_name(std::uint16_t op) noexcept;
/// The same without the overload.
std::string writer_base_name(std::uint16_t op);
bool install_writers() noexcept;
/// Of the writers that were called in watched cycles.
DDPSCOPE_HOT HookGroup& writer_hooks() noexcept;

/// Inside a backward and an optimizer of LibTorch autograd records nothing, so that no write can
/// fail for its rules: in cycles that are not watched the hooks of writers rest there.
class RestingWriters {
 public:
  DDPSCOPE_HOT static void begin() noexcept;
  static void end() noexcept {
    if (hook_state.writers_rest.load(std::memory_order_relaxed)) wake();
  }

 private:
  DDPSCOPE_HOT static void wake() noexcept;
};

}  // namespace ddpscope
