// What the rank file says beside findings: models, steps and where a rank stands.
#include <algorithm>

#include "model/clock.h"
#include "model/recorded_steps.h"
#include "plugin/flight_record.h"
#include "plugin/log.h"
#include "plugin/model_record.h"
#include "plugin/worker.h"

namespace ddpscope {

void Worker::model_changed(const TreeEvent& tree) {
  ModelRecord record = model_record(tree);
  if (options_.run.rank == 0) record.tree = module_records(tree);
  const auto known = std::ranges::find(models_, tree.model, &Model::id);
  if (known == models_.end()) {
    models_.push_back({.id = tree.model, .record = record});
    return;
  }
  const ModelRecord& before = known->record;
  const bool differs = before.digest != record.digest || before.trainable != record.trainable ||
                       before.name != record.name;
  if (differs) *known = {.id = tree.model, .record = record};
}

void Worker::model_ended(const TreeEndEvent& end) {
  std::erase_if(models_,
                [&end](const Model& model) { return model.id == end.model && !model.is_written; });
}

void Worker::write_models() {
  for (Model& model : models_) {
    if (std::exchange(model.is_written, true) || writer_ == nullptr) continue;
    writer_->write_model(model.record);
  }
}

void Worker::cycle_ended(const CycleEndEvent& cycle) {
  last_cycle_ = cycle;
  write_models();
  write_step({.at = cycle.at,
              .wall_ms = cycle.wall_ms,
              .overhead_us = cycle.overhead_us,
              .unix_ns = cycle.unix_ns,
              .calls = cycle.calls});
}

void Worker::write_step(const RestedStepEvent& step) {
  last_step_ = std::max(last_step_, step.at.step);
  first_costs_.step_ended(step.at, step.wall_ms, judge_);
  const std::int64_t host_reads = std::exchange(host_reads_, 0);
  const StepValues::Told values = step_values_.take(step.at.cycle);
  if (!is_step_recorded(step.at) || writer_ == nullptr) return;
  writer_->write_step({.step = step.at.step,
                       .wall_ms = step.wall_ms,
                       .overhead_us = step.overhead_us,
                       .collectives = step.calls.count,
                       .seq = step.calls.last_seq,
                       .host_reads = host_reads,
                       .time_unix_ns = step.unix_ns,
                       .loss = values.loss,
                       .gradient_norm = values.gradient_norm});
  tell_if_cut_off();
}

void Worker::watch_ranks() {
  if (options_.run.world_size == 1 || judge_broke_) return;
  try {
    if (const auto stall = ranks_.look(queue_.put_count())) tell_stall(*stall);
    tell_over_ranks(live_compare_.look(steady_ns()));
    compare_steps();
  } catch (...) {  // no memory for the rings of all ranks: a merge compares them
  }
}

void Worker::tell_stall(const ProgressRecord& stall) {
  {
    const std::lock_guard lock(mutex_);
    if (writer_ == nullptr) return;
    writer_->write_progress(stall);
    writer_->sync();
  }
  if (options_.settings.exchange != Exchange::kOff) {
    live_compare_.begin(ranks_.dir(), steady_ns());
  }
  const std::string problem = write_flight_record(ranks_.dir(), options_.run.rank);
  if (!problem.empty()) log_warning(problem);
}

}  // namespace ddpscope
