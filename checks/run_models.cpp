// Which model a finding is filed under.
#include "checks/run_state.h"

namespace ddpscope {

const ModelState* RunState::model_of(const TensorState& tensor) const {
  for (const Registration& at : tensor.registrations) {
    const auto model = models_.find(at.model);
    if (model != models_.end()) return &model->second;
  }
  return first_model();
}

const ModelState* RunState::model_of(const OptimizerState& optimizer) const {
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) {
      if (const TensorState* known = tensor(member.tensor)) return model_of(*known);
    }
  }
  return first_model();
}

const TensorState* RunState::trained_in(ModelId model) const {
  const auto known = trained_.find(model);
  return known == trained_.end() ? nullptr : tensor(known->second);
}

const ModelState* RunState::first_model() const {
  if (!trained_.empty()) return &models_.at(trained_.begin()->first);
  return models_.empty() ? nullptr : &models_.begin()->second;
}

}  // namespace ddpscope
