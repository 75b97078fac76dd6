#include "checks/own_updates.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::int64_t kUpdates = 3;
}  // namespace

void OwnUpdates::add(const GradientEvent& event) {
  const auto [entry, is_new] = parameters_.try_emplace(event.tensor);
  Parameter& parameter = entry->second;
  if (event.outlived_update) {
    ++parameter.updates;
  } else if (event.before == GradientBefore::kZero) {
    ++parameter.untold;
  } else if (event.before != GradientBefore::kKept) {
    parameter = {.cleared = !is_new};
  }
  ++parameter.accumulations;
  parameter.cycle = event.at.cycle;
}

OwnUpdates::Closed OwnUpdates::close(std::int64_t cycle,
                                     const std::function<bool(TensorId)>& is_judged) {
  std::erase_if(parameters_, [&](const auto& entry) { return !is_judged(entry.first); });
  Closed closed{.all = true};
  std::vector<TensorId> untold;
  for (const auto& [id, parameter] : parameters_) {
    if (parameter.cycle != cycle) continue;
    if (parameter.updates < kUpdates) {
      const bool is_untold = parameter.updates + parameter.untold >= kUpdates;
      if (parameter.cleared) closed.cleared.push_back(id);
      if (is_untold) untold.push_back(id);
      closed.all = closed.all && is_untold;
      continue;
    }
    closed.stale.push_back(id);
    closed.accumulations = std::max(closed.accumulations, parameter.accumulations);
    closed.updates = std::max(closed.updates, parameter.updates);
  }
  closed.all = closed.all && closed.cleared.empty();
  if (closed.all && !closed.stale.empty()) {
    closed.stale.insert(closed.stale.end(), untold.begin(), untold.end());
  }
  return closed;
}

}  // namespace ddpscope
