#include "checks/rising_windows.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ddpscope {
namespace {
constexpr std::int64_t kCycles = 32;
// Where most cycles are not watched, a window has fewer of them.
constexpr std::int64_t kFewestCycles = 8;
constexpr std::int64_t kSteps = 64;
}  // namespace

bool RisingWindows::is_complete(std::int64_t step) const {
  return cycles_ == kCycles || (cycles_ >= kFewestCycles && step - begin_ >= kSteps);
}

bool RisingWindows::add(double reading, std::int64_t step) {
  if (cycles_++ == 0) {
    lowest_ = reading;
    begin_ = step;
  }
  lowest_ = std::min(lowest_, reading);
  if (!is_complete(step)) return false;
  cycles_ = 0;
  if (!windows_.empty() && lowest_ <= windows_.back().lowest) begin_row();
  windows_.push_back({.lowest = lowest_, .last_step = step});
  if (windows_.size() > kCount + 1) windows_.pop_front();
  return true;
}

void RisingWindows::begin_anew() {
  begin_row();
  cycles_ = 0;
}

Trend RisingWindows::trend() const {
  std::vector<double> rising;
  for (std::size_t i = 1; i < windows_.size(); ++i) rising.push_back(windows_[i].lowest);
  // A cycle of several optimizers has as many steps.
  const auto steps = static_cast<double>(windows_.back().last_step - windows_[1].last_step);
  Trend trend = trend_of(rising);
  trend.slope *= static_cast<double>(rising.size() - 1) / steps;
  return trend;
}

}  // namespace ddpscope
