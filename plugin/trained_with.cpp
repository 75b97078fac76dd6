#include "plugin/trained_with.h"

#include <algorithm>
#include <utility>

#include "exchange/reduction_record.h"

namespace ddpscope {

void TrainedWith::on(const GradientsScaledEvent& event) {
  if (!event.quotient.has_value() || !event.factor.has_value()) return;
  // One that is listed twice is clipped once more.
  if (2 * event.gradients < clipped_) return;
  clipped_ = std::max(clipped_, event.gradients);
  clip_factor_ *= *event.factor;
}

void TrainedWith::on(const ReducedGradientsEvent& event) {
  for (const auto& [id, model] : models_) {
    ToldReductions told{.clip_factor = clip_factor_, .calls = calls_, .gradients = {}};
    for (const ReducedGradient& gradient : event.gradients) {
      const auto place = model.place_of(gradient.tensor);
      if (!place.has_value()) continue;
      told.gradients.push_back({.parameter = static_cast<std::uint32_t>(*place),
                                .before = gradient.before,
                                .after = gradient.after,
                                .fingerprint = gradient.fingerprint});
    }
    if (told.gradients.empty()) continue;
    blob_({.kind = BlobKind::kReductions,
           .number = static_cast<std::uint32_t>(id),
           .step = event.at.step,
           .bytes = encode(told)});
  }
}

bool TrainedWith::shares_data(const RunState& state) const {
  return std::ranges::any_of(
      models_, [&](const auto& entry) { return state.declared(entry.first, "", "shared_data"); });
}

void TrainedWith::on(const RandomStateEvent& event, const RunState& state) {
  if (shares_data(state)) return;
  random_ = event.fingerprint;
  const ModulePlace* place = state.place_of(event.module);
  put_text(
      BlobKind::kRandom, event.at.step,
      std::to_string(event.seed) + " " + event.op + " " + (place == nullptr ? "" : place->path),
      random_told_);
}

void TrainedWith::on(const BatchEvent& event, const RunState& state) {
  if (shares_data(state)) return;
  batch_ = event.fingerprint;
  std::string text;
  for (const std::int64_t size : event.shape) {
    text += (text.empty() ? "[" : ", ") + std::to_string(size);
  }
  put_text(BlobKind::kBatch, event.at.step, text + "] " + event.dtype, batch_told_);
}

// Where it changed.
void TrainedWith::put_text(BlobKind kind, std::int64_t step, std::string text, std::string& told) {
  if (text == told) return;
  told = std::move(text);
  blob_({.kind = kind, .number = 0, .step = step, .bytes = told});
}

void TrainedWith::add_to(StepDigest& digest) const {
  digest.batch = batch_;
  digest.random = random_;
}

void TrainedWith::step_ended() {
  clip_factor_ = 1;
  clipped_ = 0;
  batch_ = random_ = 0;
}

}  // namespace ddpscope
