#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace ddpscope {

/// One line on stderr about work that takes more than a second; nothing where stderr is no
/// terminal. Erased in the end.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `comparing ranks: 412 of 1000`
  void tell(std::size_t done, std::size_t all);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool on_terminal_;
  bool is_shown_ = false;
  Clock::time_point next_;
};

}  // namespace ddpscope
