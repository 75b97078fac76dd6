#include "checks/rising_windows.h"

#include <utility>
#include <vector>

namespace ddpscope {
namespace {
constexpr std::int64_t kCycles = 32;
// Where most cycles are not watched, a window has fewer of them.
constexpr std::int64_t kFewestCycles = 8;
constexpr std::int64_t kSteps = 64;
constexpr double kGoesOn = 0.5;
}  // namespace

bool RisingWindows::is_complete(std::int64_t step) const {
  return cycles_ == kCycles || (cycles_ >= kFewestCycles && step - begin_ >= kSteps);
}

bool RisingWindows::add(double reading, std::int64_t step) {
  if (cycles_++ == 0) begin_ = step;
  if (cycles_ == 1 || reading < now_.lowest) now_ = {.lowest = reading, .step = step};
  if (!is_complete(step)) return false;
  cycles_ = 0;
  if (!windows_.empty() && now_.lowest <= windows_.back().lowest) begin_row();
  windows_.push_back(now_);
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
  const auto steps = static_cast<double>(windows_.back().step - windows_[1].step);
  Trend trend = trend_of(rising);
  trend.slope *= static_cast<double>(rising.size() - 1) / steps;
  return trend;
}

bool RisingWindows::go_on() const {
  const Window& last = windows_.back();
  const Window& before = windows_[windows_.size() - 2];
  const auto steps = static_cast<double>(last.step - before.step);
  return last.lowest - before.lowest >= kGoesOn * trend().slope * steps;
}

}  // namespace ddpscope
