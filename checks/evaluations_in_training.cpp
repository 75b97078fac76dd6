#include "checks/evaluations_in_training.h"

#include <utility>

namespace ddpscope {
namespace {
constexpr std::int64_t kEnough = 2;  // outputs, where training goes on
constexpr std::int64_t kBelongToSteps = 2;

struct JudgedPlace {
  ModelId model = 0;
  std::string path = {};
};

/// Where hooks rest, the layer is not known: the model is, if there is one.
JudgedPlace judged_place(const JudgedOutputEvent& event, const RunState& state,
                         const std::set<ModelId>& trained) {
  if (const ModulePlace* const place = state.place_of(event.module)) {
    return {place->model, place->path};
  }
  const TensorState* const weight = state.tensor(event.weight);
  if (weight != nullptr && !weight->registrations.empty()) {
    const Registration& at = weight->registrations.front();
    return {at.model, at.module_path};
  }
  return {trained.size() == 1 ? *trained.begin() : 0};
}
}  // namespace

void EvaluationsInTraining::judged(const JudgedOutputEvent& event, const RunState& state) {
  if (event.unjudged_in_row >= kBelongToSteps) return;
  const JudgedPlace place = judged_place(event, state, trained_);
  if (event.in_eval || !trained_.contains(place.model)) return;
  if (state.declared(place.model, place.path, "intended")) return;
  Evaluated& evaluated = models_[place.model];
  if (evaluated.step != event.at.step) {
    const bool follows = evaluated.step >= 0 && event.at.step == evaluated.step + 1;
    if (follows) evaluated.outputs = 0;  // of neither
    end_bout(evaluated);
    evaluated.follows = follows;
    evaluated.step = event.at.step;
  }
  if (evaluated.what.op.empty()) {
    evaluated.what = {.path = place.path,
                      .op = event.training_op,
                      .loss = event.op,
                      .stack = event.stack,
                      .step = event.at.step};
  }
  ++evaluated.outputs;
}

void EvaluationsInTraining::end_bout(Evaluated& evaluated) {
  const std::int64_t outputs = std::exchange(evaluated.outputs, 0);
  if (!evaluated.follows) evaluated.what.times += outputs;
}

void EvaluationsInTraining::tell(std::int64_t step, const RunState& state, Findings& findings) {
  for (auto& [id, evaluated] : models_) {
    if (step > evaluated.step + 1) end_bout(evaluated);
    if (evaluated.told || evaluated.what.times < kEnough || !state.models().contains(id)) continue;
    evaluated.told = true;
    findings.push_back(evaluation_in_training(state.models().at(id), evaluated.what, state));
  }
}

void EvaluationsInTraining::tell_at_exit(const RunState& state, Findings& findings) {
  for (auto& [id, evaluated] : models_) {
    end_bout(evaluated);
    if (evaluated.told || evaluated.what.times == 0 || !state.models().contains(id)) continue;
    findings.push_back(evaluation_in_training(state.models().at(id), evaluated.what, state));
  }
}

}  // namespace ddpscope
