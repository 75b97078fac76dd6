#include "plugin/trained_with.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exchange/reduction_record.h"
#include "exchange/sampler_shares.h"
#include "exchange/sync_patterns.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kFewNumbers = 4;

bool exchanges_few(const CollectiveEvent& event) {
  using enum CollectiveKind;
  const bool adds = event.kind == kAllReduce && event.reduce <= ReduceKind::kAverage;
  return (adds || event.kind == kAllGather) && event.elements_max <= kFewNumbers &&
         !event.averages && !event.of_norm;
}
}  // namespace

void TrainedWith::on_backward(const BackwardEvent& event, const LossScale& loss) {
  constexpr double kSameNumber = 1e-6;
  calls_ = 0;
  backwards_ += event.accumulates;
  divided_.on_backward(event);
  is_shared_sum_ = (loss.is_product() || divided_.is_divided()) && few_exchanged_;
  if (const auto factor = loss.now()) {
    divides_by_rows_ = rows_ > 1 && std::abs(*factor * rows_ - 1) < kSameNumber;
  }
}

void TrainedWith::on(const CollectiveEvent& event) {
  ++calls_;
  if (event.averages && backwards_ > 0) averaged_.insert(backwards_);
  few_exchanged_ |= exchanges_few(event);
}

// What else lies between a loss and the backward, as the sum of several losses, weighs its targets
// alike on all ranks, unless it is made of what ranks exchanged.
void TrainedWith::on(const LossTargetsEvent& event, const RunState& state) {
  is_weighed_ |= few_exchanged_ && !event.is_root;
  losses_ += event.losses;
  targets_ += event.targets;
  const ModulePlace* place = state.place_of(event.module);
  put_text(BlobKind::kLoss, event.at.step,
           std::string(event.op) + " " + std::to_string(event.classes) + " " +
               (place == nullptr ? "" : place->path),
           loss_told_);
}

void TrainedWith::on(const GradientsScaledEvent& event) {
  if (!event.factor.has_value()) return;
  if (!event.quotient.has_value()) {
    weigh(event);
    return;
  }
  // Clipped after each of several backwards, no factor is that of what is stepped with.
  is_clipped_each_ |= clipped_ > 0 && clip_backwards_ != backwards_;
  clip_backwards_ = backwards_;
  // One that is listed twice is clipped once more.
  if (2 * event.gradients < clipped_) return;
  clipped_ = std::max(clipped_, event.gradients);
  clip_factor_ = is_clipped_each_ ? 1 : clip_factor_ * *event.factor;
}

// One number tells of all gradients: the factors of the first of them. A program that scales them
// one by one, with other work between, tells of each by itself.
void TrainedWith::weigh(const GradientsScaledEvent& event) {
  if (first_weighed_ == 0) first_weighed_ = event.first;
  const bool of_all = event.gradients > 1 && event.gradients >= weighed_;
  if (event.first != first_weighed_ && !of_all) return;
  weighed_ = std::max(weighed_, event.gradients);
  weight_ *= *event.factor;
}

void TrainedWith::on(const ReducedGradientsEvent& event) {
  tell(BlobKind::kReductions, event, event.gradients);
  tell(BlobKind::kLeft, event, event.left);
}

void TrainedWith::tell(BlobKind kind, const ReducedGradientsEvent& event,
                       const std::vector<ReducedGradient>& gradients) const {
  for (const auto& [id, model] : models_) {
    // Of a sum that is divided by the count of all ranks, the sum over ranks is the mean.
    const double of_sum = divides_by_rows_ ? kOwnWeight : kNoWeight;
    ToldReductions told{.clip_factor = clip_factor_,
                        .weight = !event.watched   ? kUnknownWeight
                                  : is_shared_sum_ ? of_sum
                                  : weight_ == 0   ? kZeroWeight
                                                   : weight_,
                        .calls = calls_,
                        .gradients = {}};
    for (const ReducedGradient& gradient : gradients) {
      const auto place = model.place_of(gradient.tensor);
      if (!place.has_value()) continue;
      told.gradients.push_back({.parameter = static_cast<std::uint32_t>(*place),
                                .before = gradient.before,
                                .total = gradient.total,
                                .after = gradient.after,
                                .fingerprint = gradient.fingerprint,
                                .grew_after = gradient.grew_after});
    }
    if (told.gradients.empty()) continue;
    blob_({.kind = kind,
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
  rows_ = event.shape.empty() ? 0 : static_cast<double>(event.shape.front());
  tell_epoch(event);
  if (shares_data(state)) return;
  batch_ = event.fingerprint;
  std::string text;
  for (const std::int64_t size : event.shape) {
    text += (text.empty() ? "[" : ", ") + std::to_string(size);
  }
  put_text(BlobKind::kBatch, event.at.step, text + "] " + event.dtype, batch_told_);
}

void TrainedWith::on(const BatchRequestEvent& event, const RunState& state) {
  request_ = join(request_, event);
  if (event.replicas == 0 || shares_data(state)) return;
  const std::string share = share_text({.replicas = event.replicas, .replica = event.replica});
  blob_({.kind = BlobKind::kShare, .step = event.at.step, .bytes = share});
}

// Trained on what the loader was asked for in this step; an evaluation's loader is another one.
void TrainedWith::tell_epoch(const BatchEvent& event) {
  const BatchRequestEvent request = std::exchange(request_, {});
  if (request.rows_left == 0 || request.at.step != event.at.step) return;
  if (request.rows == 0 || rows_ != static_cast<double>(request.rows)) return;
  const std::int64_t batches = (request.rows_left + request.rows - 1) / request.rows;
  blob_({.kind = BlobKind::kEpoch, .step = request.at.step, .bytes = std::to_string(batches)});
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

void TrainedWith::add_whole_to(StepDigest& digest) const {
  digest.clip_factor = clip_factor_;
  if (losses_ == 0 || is_weighed_) return;
  digest.targets = static_cast<float>(targets_) / static_cast<float>(losses_);
}

void TrainedWith::tell_sync_pattern(std::int64_t step) {
  put_text(BlobKind::kSyncPattern, step, sync_pattern_text(backwards_, averaged_), sync_told_);
}

void TrainedWith::step_ended() {
  backwards_ = 0;
  averaged_.clear();
  clip_factor_ = weight_ = 1;
  clipped_ = weighed_ = 0;
  first_weighed_ = 0;
  is_clipped_each_ = false;
  batch_ = random_ = 0;
  losses_ = targets_ = 0;
  few_exchanged_ = is_weighed_ = false;
}

}  // namespace ddpscope
