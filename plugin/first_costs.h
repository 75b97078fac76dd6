#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checks/judge.h"
#include "model/run_record.h"

namespace ddpscope {

/// What checks cost in the first cycles, in which every source runs in full, and after them.
class FirstCosts {
 public:
  explicit FirstCosts(std::int64_t cycles) : cycles_(cycles) {}

  void step_ended(const Stamp& at, double wall_ms, const Judge& judge);
  /// Of a check that has cost `cost_ns` in a run of so many steps; not its coverage.
  CheckCost cost_of(const std::string& id, std::int64_t cost_ns, double wall_ms,
                    std::int64_t steps) const;

 private:
  std::int64_t cycles_;
  std::int64_t steps_ = 0;
  double wall_ms_ = 0;
  bool are_over_ = false;
  std::map<std::string, std::int64_t> costs_ns_;  // when they were over
};

}  // namespace ddpscope
