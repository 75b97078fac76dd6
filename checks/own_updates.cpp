#include "checks/own_updates.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::int64_t kUpdates = 3;
}  // namespace

void OwnUpdates::add(const GradientEvent& event) {
  Parameter& parameter = parameters_[event.tensor];
  if (event.before != GradientBefore::kKept && !event.outlived_update) parameter = {};
  if (event.outlived_update) ++parameter.updates;
  ++parameter.accumulations;
  parameter.cycle = event.at.cycle;
}

OwnUpdates::Closed OwnUpdates::close(std::int64_t cycle,
                                     const std::function<bool(TensorId)>& is_judged) {
  std::erase_if(parameters_, [&](const auto& entry) { return !is_judged(entry.first); });
  Closed closed;
  for (const auto& [id, parameter] : parameters_) {
    if (parameter.cycle != cycle) continue;
    if (parameter.updates < kUpdates) {
      closed.cleared.push_back(id);
      continue;
    }
    closed.stale.push_back(id);
    closed.accumulations = std::max(closed.accumulations, parameter.accumulations);
    closed.updates = std::max(closed.updates, parameter.updates);
  }
  return closed;
}

}  // namespace ddpscope
