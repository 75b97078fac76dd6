#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

namespace ddpscope {

/// A few values, as long as they are two without an allocation; what goes beyond the most is left
/// out.
template <class T, std::size_t kMost>
class ShortList {
 public:
  using value_type = T;
  ShortList() = default;
  ShortList(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }
  void push_back(const T& value) {
    if (size_ == kMost) return;
    if (size_ == kHere) {
      more_.reserve(kMost);
      more_.assign(here_.begin(), here_.end());
    }
    if (size_ < kHere) {
      here_[size_] = value;
    } else {
      more_.push_back(value);
    }
    ++size_;
  }
  const T* begin() const { return size_ > kHere ? more_.data() : here_.data(); }
  const T* end() const { return begin() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t place) const { return begin()[place]; }

 private:
  static constexpr std::size_t kHere = 2;
  std::size_t size_ = 0;
  std::array<T, kHere> here_ = {};
  std::vector<T> more_;  // all of them, where they are more
};

}  // namespace ddpscope
