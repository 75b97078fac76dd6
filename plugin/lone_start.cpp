#include "plugin/lone_start.h"

#include <algorithm>

#include "exchange/tensor_list.h"

namespace ddpscope {

bool LoneStart::on(const CollectiveEvent& event, const std::map<ModelId, ModelTensors>& models,
                   const StepDigest& last, std::int32_t calls) {
  if (averages_ || event.kind != CollectiveKind::kBroadcast || event.group_size < 2) return false;
  sent_ += static_cast<std::uint64_t>(std::max<std::int64_t>(event.elements, 0));
  std::uint64_t trained = 0;
  for (const auto& [id, model] : models) trained += trained_elements(model.list());
  if (last.step == 0 || sent_ == 0 || sent_ < trained) return false;
  found_ = {.steps = last.step,
            .optimizer_steps = last.optimizer_steps,
            .forwards = last.forwards,
            .backwards = last.backwards,
            .call_count = calls};
  return true;
}

std::optional<LoneSteps> LoneStart::take(const CollectiveEvent& event, const RunState& state) {
  if (averages_ || !event.averages) return std::nullopt;
  averages_ = true;
  if (found_.steps == 0) return std::nullopt;
  taken_ = found_.steps;
  for (const auto& [id, optimizer] : state.optimizers()) stepped_[id] = optimizer.steps;
  return found_;
}

bool LoneStart::is_of_it(const OptimizerState& optimizer) const {
  const auto known = stepped_.find(optimizer.id);
  return known != stepped_.end() && known->second > 0 && known->second == optimizer.steps;
}

}  // namespace ddpscope
