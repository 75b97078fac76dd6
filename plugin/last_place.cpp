#include "plugin/last_place.h"

#include "plugin/crash_note.h"
#include "records/record_json.h"

namespace ddpscope {

void LastPlace::saw(Event& event) noexcept {
  if (auto* op = std::get_if<std::unique_ptr<OpEvent>>(&event)) {
    op_ = std::move(*op);
    failed_.reset();
    changed_ = true;
  } else if (auto* failed = std::get_if<std::unique_ptr<OperatorFailedEvent>>(&event)) {
    failed_ = std::move(*failed);
    changed_ = true;
  }
}

void LastPlace::saw_early(const Event& event) {
  Event copy;
  if (const auto* op = std::get_if<std::unique_ptr<OpEvent>>(&event)) {
    copy = std::make_unique<OpEvent>(**op);
  } else if (const auto* failed = std::get_if<std::unique_ptr<OperatorFailedEvent>>(&event)) {
    copy = std::make_unique<OperatorFailedEvent>(**failed);
  }
  saw(copy);
}

ProgressRecord LastPlace::look_up(const RunState& state) const {
  ProgressRecord found;
  found.step = failed_ != nullptr ? failed_->at.step : op_->at.step;
  found.op = failed_ != nullptr ? failed_->op : op_->op;
  const ModulePlace* place = state.place_of(failed_ != nullptr ? failed_->module : op_->module);
  if (place != nullptr) {
    found.module_path = place->path;
    const auto model = state.models().find(place->model);
    if (model != state.models().end()) found.model = model->second.label;
  } else if (failed_ == nullptr) {
    found.module_path = state.path_of(*op_).value_or("");
  }
  return found;
}

void LastPlace::publish(const RunState& state) noexcept {
  if (!changed_) return;
  changed_ = false;
  try {
    place_ = look_up(state);
    crash_note::set_place(place_.step, place_members(place_));
  } catch (...) {  // no memory: the earlier place is of an earlier step
  }
}

void LastPlace::fill(ProgressRecord& record) const {
  if (record.step != place_.step) return;
  record.model = place_.model;
  record.module_path = place_.module_path;
  record.op = place_.op;
}

}  // namespace ddpscope
