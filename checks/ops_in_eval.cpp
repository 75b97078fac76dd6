#include "checks/ops_in_eval.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kTimesInEval = 2;

/// Below the first model, where the layer is not known.
InEval place_in_eval(const std::string& op, ModuleId module, TensorId norm, const RunState& state) {
  const ModulePlace* place = state.place_of(module);
  const TensorState* tensor = state.tensor(norm);
  const bool has_place = tensor != nullptr && !tensor->registrations.empty();
  InEval in_eval{.op = op, .model = state.first_model()->id};
  in_eval.unregistered = place == nullptr && !has_place && (module != 0 || norm != 0);
  if (place != nullptr) {
    in_eval.model = place->model;
    in_eval.path = place->path;
  } else if (has_place) {
    in_eval.model = tensor->registrations.front().model;
    in_eval.path = tensor->registrations.front().module_path;
  }
  return in_eval;
}
}  // namespace

/// Null where it is declared.
OpsInEval::Count* OpsInEval::count_of(const InEval& in_eval, const RunState& state) {
  if (state.declared(in_eval.model, in_eval.path, "intended")) return nullptr;
  return &places_[{in_eval.model, in_eval.path + ":" + in_eval.op}];
}

void OpsInEval::tell(std::int64_t times, Count& count, const InEval& in_eval, const RunState& state,
                     Findings& findings) {
  if (times < kTimesInEval || std::exchange(count.told, true)) return;
  findings.push_back(training_op_in_eval(state.models().at(in_eval.model), in_eval));
}

void OpsInEval::ran(const TrainingOpEvent& event, const RunState& state, Findings& findings) {
  if (event.grad_mode || !event.in_eval || state.first_model() == nullptr) return;
  const InEval in_eval = place_in_eval(event.op, event.module, event.statistics, state);
  Count* const count = count_of(in_eval, state);
  if (count != nullptr) tell(++count->ran, *count, in_eval, state, findings);
}

// Of these one may be another forward of what was seen to run.
void OpsInEval::judged(const JudgedOutputEvent& event, const RunState& state, Findings& findings) {
  if (!event.in_eval || event.module != 0 || state.first_model() == nullptr) return;
  const InEval in_eval = place_in_eval(event.training_op, event.module, event.weight, state);
  Count* const count = count_of(in_eval, state);
  if (count != nullptr) tell(++count->judged, *count, in_eval, state, findings);
}

}  // namespace ddpscope
