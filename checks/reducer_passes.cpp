#include "checks/reducer_passes.h"

#include <algorithm>

#include "checks/run_state.h"

namespace ddpscope {
namespace {
/// Whether the optimizer holds one of the parameters, or nobody knows who does.
bool is_used_by(OptimizerId optimizer, const ReducerEvent& pass, const RunState& state) {
  bool known = false;
  for (const TensorId id : pass.parameters) {
    const TensorState* tensor = state.tensor(id);
    if (tensor == nullptr || tensor->owners.empty()) continue;
    if (std::ranges::find(tensor->owners, optimizer) != tensor->owners.end()) return true;
    known = true;
  }
  return !known;
}
}  // namespace

ReducerPasses::Passes ReducerPasses::on(const ReducerEvent& event) {
  if (event.stage == ReducerStage::kUnfinished) {
    open_.insert_or_assign(event.reducer, event);
    return {};
  }
  auto pass = open_.extract(event.reducer);
  if (pass.empty() || event.stage != ReducerStage::kAbandoned) return {};
  return {std::move(pass.mapped())};
}

ReducerPasses::Passes ReducerPasses::on(const OptimizerStepEvent& event, const RunState& state) {
  Passes decided;
  if (event.threw) return decided;
  std::erase_if(open_, [&](auto& entry) {
    if (!is_used_by(event.optimizer, entry.second, state)) return false;
    decided.push_back(std::move(entry.second));
    return true;
  });
  return decided;
}

}  // namespace ddpscope
