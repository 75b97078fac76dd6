#include "checks/clip_window.h"

#include <algorithm>
#include <utility>

namespace ddpscope {

void ClipWindow::add_step(bool is_counted, std::int64_t number) {
  const std::optional<Clip> clip = std::exchange(clip_, std::nullopt);
  const double factor = clip.has_value() ? clip->factor : 1;
  idle_steps_ = factor < 1 ? 0 : idle_steps_ + 1;
  if (clip.has_value()) limit_ = clip->limit;
  if (!is_counted) return;
  if (covers(kSteps)) clear();
  if (factors_.empty()) first_ = number;
  last_ = number;
  factors_.push_back(factor);
  if (clip.has_value()) norms_.push_back(clip->norm);
}

void ClipWindow::clear() {
  factors_.clear();
  norms_.clear();
}

double ClipWindow::active_ratio() const {
  const auto active = std::ranges::count_if(factors_, [](double factor) { return factor < 1; });
  return static_cast<double>(active) / static_cast<double>(factors_.size());
}

}  // namespace ddpscope
