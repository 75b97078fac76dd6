#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace ddpscope {

/// One call of an operator that writes some of its arguments. What the program called is recorded
/// when it has returned; what that calls itself, and what autograd runs below, is part of it.
class WriteScope {
 public:
  explicit WriteScope(std::uint16_t op) noexcept;
  ~WriteScope() noexcept;
  WriteScope(const WriteScope&) = delete;
  WriteScope& operator=(const WriteScope&) = delete;

  bool is_outermost() const noexcept { return outermost_; }
  void writes(const at::Tensor& tensor) noexcept {
    if (count_ < tensors_.size()) tensors_[count_++] = &tensor;
  }
  void writes(const std::optional<at::Tensor>& tensor) noexcept {
    if (tensor.has_value()) writes(*tensor);
  }
  void writes(at::TensorList list) noexcept {
    if (list_count_ < lists_.size()) lists_[list_count_++] = list;
  }

 private:
  void record() const noexcept;
  void tell_failed() const noexcept;
  template <class Visit>
  void for_each(Visit&& visit) const;

  std::uint16_t op_;
  bool outermost_;
  int exceptions_;
  std::size_t count_ = 0;
  std::size_t list_count_ = 0;
  std::array<const at::Tensor*, 8> tensors_{};
  std::array<at::TensorList, 5> lists_{};
};

/// The operators that write an argument, by their place in the list of writers.
const char* writer_name(std::uint16_t op) noexcept;
/// The same without the overload.
std::string writer_base_name(std::uint16_t op);
bool install_writers() noexcept;

}  // namespace ddpscope
