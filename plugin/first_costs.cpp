#include "plugin/first_costs.h"

#include <algorithm>

namespace ddpscope {
namespace {
CostShare share_of(std::int64_t cost_ns, double wall_ms, std::int64_t steps) {
  const double us = static_cast<double>(cost_ns) / 1e3;
  const auto shared_by = static_cast<double>(std::max<std::int64_t>(steps, 1));
  return {.us_per_step = us / shared_by, .percent = wall_ms > 0 ? us / (10 * wall_ms) : 0};
}
}  // namespace

void FirstCosts::step_ended(const Stamp& at, double wall_ms, const Judge& judge) {
  if (are_over_) return;
  steps_ = std::max(steps_, at.step);
  wall_ms_ += wall_ms;
  are_over_ = at.cycle >= cycles_;
  if (!are_over_) return;
  for (const auto& [id, coverage] : judge.coverage()) costs_ns_[id] = coverage.cost_ns;
}

CheckCost FirstCosts::cost_of(const std::string& id, std::int64_t cost_ns, double wall_ms,
                              std::int64_t steps) const {
  const CostShare all = share_of(cost_ns, wall_ms, steps);
  CheckCost cost{.us_per_step = all.us_per_step, .percent = all.percent, .first = all};
  if (!are_over_ || steps <= steps_) return cost;
  const auto known = costs_ns_.find(id);
  const std::int64_t first_ns = known == costs_ns_.end() ? 0 : known->second;
  cost.first = share_of(first_ns, wall_ms_, steps_);
  cost.after = share_of(cost_ns - first_ns, wall_ms - wall_ms_, steps - steps_);
  return cost;
}

}  // namespace ddpscope
