#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

namespace ddpscope {

/// A few values without an allocation: what does not fit is left out.
template <class T, std::size_t kMost>
class ShortList {
 public:
  using value_type = T;
  ShortList() = default;
  ShortList(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }
  void push_back(const T& value) {
    if (size_ < kMost) values_[size_++] = value;
  }
  const T* begin() const { return values_.data(); }
  const T* end() const { return values_.data() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t place) const { return values_[place]; }

 private:
  std::size_t size_ = 0;
  std::array<T, kMost> values_;
};

}  // namespace ddpscope
