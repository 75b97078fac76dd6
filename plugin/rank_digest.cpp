#include "plugin/rank_digest.h"

#include <algorithm>
#include <string>

#include "model/clock.h"
#include "model/hash.h"

namespace ddpscope {

void RankDigest::saw(const Event& event, const RunState& state) {
  const auto visit = [&]<class T>(const T& e) {
    if constexpr (requires { *e; }) {
      on(*e, state);
    } else {
      on(e, state);
    }
  };
  std::visit(visit, event);
}

void RankDigest::on(const GradientEvent& event, const RunState& state) {
  if (!event.defined) return;
  if (!left_.empty()) come_back(event.tensor, state);
  for (auto& [id, model] : models_) model.receive(event.tensor);
}

void RankDigest::on(const BackwardEvent& event, const RunState&) {
  trains_ = true;
  lone_.on_backward(last_, calls_);
  scale_.on_backward(event);
  trained_with_.on_backward(event, scale_);
  scale_known_ = event.surveyed;
  second_order_ = !event.accumulates && event.creates_graph;
}

// Those before training make replicas equal.
void RankDigest::on(const CollectiveEvent& event, const RunState& state) {
  if (trains_) ++calls_;
  lone_.on(event, models_, last_, calls_);
  if (!averages_ && !event.averages) {
    for (const TensorId tensor : event.tensors) see_sent(tensor, event.elements);
  }
  if (const auto lone = lone_.take(event, models_, state)) {
    optimizers_changed_ = true;
    leave_models();
    skipped_ = SkippedSteps();
    last_.call_count = lone->call_count;
    if (sinks_.lone) sinks_.lone(*lone);
  }
  averages_ |= event.averages;
  trained_with_.on(event);
  statistics_.on(event);
}

void RankDigest::on(const BackwardEndEvent& event, const RunState& state) {
  if (start_changed_) put_start(state);
  if (event.threw) return;
  ++backwards_;
  in_progress_told_ = false;
}

std::int64_t RankDigest::buffer_elements() const {
  std::int64_t elements = 0;
  for (const auto& [id, model] : models_) {
    for (const ListedTensor& tensor : model.list().tensors) {
      if (tensor.is_buffer) elements += static_cast<std::int64_t>(elements_of(tensor));
    }
  }
  return elements;
}

void RankDigest::put_list(ModelId model, const std::string& bytes) {
  put(BlobKind::kTensors, model, steps_began_ ? last_.step + 1 : 0, bytes);
}

void RankDigest::put(BlobKind kind, ModelId model, std::int64_t step, const std::string& bytes) {
  if (bytes.empty()) return;
  sinks_.blob(
      {.kind = kind, .number = static_cast<std::uint32_t>(model), .step = step, .bytes = bytes});
}

void RankDigest::on(const TensorBitsEvent& event, const RunState& state) {
  if (event.step == kAtAttach) {
    for (const TensorBits& one : event.tensors) attached_[one.tensor] = one.fingerprint;
    return;
  }
  if (event.step != bits_step_) {
    bits_.clear();
    sketches_.clear();
    ran_.clear();
  }
  bits_step_ = event.step;
  for (const ModuleId module : event.ran) {
    if (const ModulePlace* const place = state.place_of(module)) ran_.insert(place->model);
  }
  for (const TensorBits& one : event.tensors) {
    bits_[one.tensor] = one.fingerprint;
    sketches_[one.tensor] = one.sketch;
  }
  start_changed_ |= event.step == 0 && !steps_began_;
}

// To save running statistics is to use them.
void RankDigest::on(const ArchiveTensorEvent& event, const RunState&) {
  lone_.on(event, models_, last_, calls_);
  if (!averages_) see_sent(event.tensor, /*elements=*/0);
  const auto holds = [&](const auto& entry) {
    return entry.second.place_of(event.tensor).has_value();
  };
  const bool is_load = event.access == ArchiveAccess::kRead && last_.step > 0;
  if (is_load && event.at.step > load_step_ && std::ranges::any_of(models_, holds)) {
    load_step_ = event.at.step;
    sinks_.blob({.kind = BlobKind::kLoad, .step = load_step_, .bytes = "1"});
  }
  const bool is_save = event.access == ArchiveAccess::kWritten && last_.step > 0;
  if (!is_save || statistics_.were_used()) return;
  const auto has_it = [&](const auto& entry) { return entry.second.has_buffer(event.tensor); };
  if (std::ranges::any_of(models_, has_it)) statistics_.used(buffer_elements());
}

// What came after the last step is told with it.
void RankDigest::on(const ExitEvent&, const RunState& state) {
  settle(state);
  if (!statistics_.were_used() || last_.evaluated || last_.step == 0) return;
  last_.evaluated = true;
  sinks_.digest(last_);
}

void RankDigest::on(const StepEndEvent& event, const RunState& state) {
  if (start_changed_) put_start(state);
  steps_began_ = true;
  skipped_.step_ended({.backwards = event.backwards - last_.backwards,
                       .calls = calls_ - last_.call_count,
                       .averages = averages_});
  StepDigest digest{.step = event.at.step,
                    .cycle = event.at.cycle,
                    .unix_ns = event.unix_ns,
                    .optimizer_steps = event.optimizer_steps,
                    .skipped_steps = skipped_.count(),
                    .forwards = event.forwards,
                    .backwards = event.backwards,
                    .call_count = calls_,
                    .wait_us = event.wait_us,
                    .forward_us = event.forward_us,
                    .averages = averages_,
                    .evaluated = statistics_.were_used(),
                    .second_order = second_order_};
  if (event.whole && !lost_events_) {
    add_whole(digest, state);
  } else if (!lost_any_) {
    add_rested_optimizers(digest, state);
  }
  trained_with_.add_to(digest);
  add_values(digest);
  sinks_.digest(digest);
  turns_.step_ended(event.at.thread);
  if (turns_.take_turns() && sinks_.lone) {
    sinks_.lone({.steps = static_cast<std::int32_t>(digest.step), .end = LoneEnd::kNever});
  }
  show(digest);
  last_ = digest;
  for (auto& [id, model] : models_) model.clear_received();
  backwards_ = 0;
  trained_with_.step_ended();
  statistics_.step_ended();
  lost_events_ = scale_known_ = in_progress_told_ = second_order_ = false;
}

void RankDigest::add_whole(StepDigest& digest, const RunState& state) {
  add_structure(digest);
  add_gradients(digest, state, is_compared_step(digest.step - lone_.steps()));
  add_optimizers(digest, state);
  trained_with_.add_whole_to(digest);
  trained_with_.tell_sync_pattern(digest.step);
  // Weighed by its batch or what ranks exchanged, a loss has a factor of its own on each of them.
  const double scale = scale_known_ ? scale_.now().value_or(0) : 0;
  if (!trained_with_.may_weigh_by(scale)) digest.loss_scale = scale;
}

void RankDigest::settle(const RunState& state) {
  if (start_changed_) put_start(state);
  if (backwards_ > 0 && !in_progress_told_ && !models_.empty()) put_in_progress(state);
}

void RankDigest::put_start(const RunState&) {
  start_changed_ = false;
  StepDigest digest{.unix_ns = unix_ns(), .phase = Phase::kInit, .averages = averages_};
  add_structure(digest);
  add_values(digest);
  for (const auto& [id, model] : models_) {
    if (model.fingerprint(attached_, /*of_buffers=*/true) == 0) continue;
    put(BlobKind::kFingerprints, id, kAtAttach, model.fingerprints(attached_));
  }
  sinks_.digest(digest);
  show(digest);
}

// Of a rank that waits for others, for they may differ in just this.
void RankDigest::put_in_progress(const RunState& state) {
  in_progress_told_ = true;
  StepDigest digest{.step = last_.step + 1,
                    .cycle = last_.cycle + 1,
                    .unix_ns = unix_ns(),
                    .optimizer_steps = last_.optimizer_steps,
                    .skipped_steps = skipped_.count(),
                    .forwards = last_.forwards + backwards_,
                    .backwards = last_.backwards + backwards_,
                    .call_count = calls_,
                    .phase = Phase::kReduce,
                    .averages = averages_};
  if (!lost_events_) {
    add_structure(digest);
    add_gradients(digest, state, /*with_bits=*/true);
  }
  sinks_.digest(digest);
}

void RankDigest::add_structure(StepDigest& digest) {
  if (models_.empty()) return;
  Hash hash;
  for (const auto& [id, model] : models_) hash.add(model.hash());
  digest.structure = hash.value();
}

void RankDigest::add_gradients(StepDigest& digest, const RunState& state, bool with_bits) {
  if (models_.empty()) return;
  Hash hash;
  std::int64_t received = 0;
  for (const auto& [id, model] : models_) {
    if (model.received() == 0) continue;
    hash.add(id);
    hash.add(std::string_view(model.received_bits()));
    received += model.received();
  }
  digest.gradients = hash.value();
  digest.received = static_cast<std::int32_t>(received);
  if (!with_bits && digest.gradients == told_gradients_) return;
  told_gradients_ = digest.gradients;
  for (const auto& [id, model] : models_) {
    put(BlobKind::kGradients, id, digest.step, model.received_bits());
    put(BlobKind::kMissing, id, digest.step, model.missing_causes(state));
  }
}

// A model that no gradient reaches is a copy, as one that one rank alone keeps for evaluation.
void RankDigest::add_values(StepDigest& digest) {
  if (bits_.empty() || bits_step_ != digest.step) return;
  const bool some_train =
      std::ranges::any_of(models_, [](const auto& entry) { return entry.second.has_received(); });
  for (const bool of_buffers : {false, true}) {
    Hash hash;
    bool any = false;
    for (const auto& [id, model] : models_) {
      if (some_train && !model.has_received()) continue;
      const std::uint64_t one = model.fingerprint(bits_, of_buffers);
      if (one == 0) continue;  // as of one that is gone
      any = true;
      hash.add(one);
    }
    (of_buffers ? digest.buffers : digest.parameters) = any ? hash.value() : 0;
  }
  for (const auto& [id, model] : models_) {
    put(BlobKind::kFingerprints, id, digest.step, model.fingerprints(bits_));
    put(BlobKind::kSketches, id, digest.step, model.sketches(sketches_));
    const bool runs_untrained = !model.has_received() && ran_.contains(id);
    put(BlobKind::kRan, id, digest.step, runs_untrained ? "1" : "");
  }
}

// Of a rate that is scheduled each step is a change: the steps between are enough.
void RankDigest::show(const StepDigest& digest) {
  const bool whole = digest.structure != 0;
  const bool changed =
      whole && (digest.structure != shown_.structure || digest.groups != shown_.groups ||
                digest.members != shown_.members || digest.averages != shown_.averages);
  if (whole) shown_ = digest;
  if (changed || (digest.step <= 8 && is_compared_step(digest.step)) || digest.step % every_ == 0) {
    sinks_.shown(digest);
  }
}

}  // namespace ddpscope
