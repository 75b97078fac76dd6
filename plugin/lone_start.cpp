#include "plugin/lone_start.h"

#include <algorithm>

#include "exchange/tensor_list.h"

namespace ddpscope {
namespace {
bool makes_equal(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kBarrier;
}
std::uint64_t trained_in(const LoneStart::Models& models) {
  std::uint64_t trained = 0;
  for (const auto& [id, model] : models) trained += trained_elements(model.list());
  return trained;
}

/// Parameters of gradients that a call averages; of a buffer of them, all that have one now.
std::vector<const TensorState*> averaged_by(const CollectiveEvent& event, const RunState& state) {
  std::vector<const TensorState*> averaged;
  for (const TensorId id : event.gradients_of) averaged.push_back(state.tensor(id));
  std::erase(averaged, nullptr);
  if (!averaged.empty()) return averaged;
  for (const auto& [id, tensor] : state.tensors().all()) {
    if (tensor.gradient_cycle == state.now().cycle) averaged.push_back(&tensor);
  }
  return averaged;
}
}  // namespace

void LoneStart::on(const CollectiveEvent& event, const Models& models, const StepDigest& last,
                   std::int32_t calls) {
  if (averages_ || event.group_size < 2) return;
  ends_ &= last.step == found_.steps;  // where hooks rest, no backward says that a step began
  if (event.kind == CollectiveKind::kBroadcast) add(event.elements, models, last);
  if (!event.averages) add_exchanged(event, last);
  const bool in_step = before_ == last.step;
  if (!exchanged_ && !in_step && !ends_ && makes_equal(event.kind)) {
    end_with(last, LoneEnd::kWithCall);
  }
  exchanged_ |= (in_step || last.step > 0) && !ends_;
  if (ends_ && !event.averages) found_.call_count = calls;
}

void LoneStart::on(const ArchiveTensorEvent& event, const Models& models, const StepDigest& last,
                   std::int32_t calls) {
  const bool is_trained = std::ranges::any_of(models, [&event](const auto& entry) {
    return entry.second.place_of(event.tensor).has_value();
  });
  if (averages_ || event.access != ArchiveAccess::kRead || !is_trained) return;
  if (before_ == last.step) return;  // inside a step
  add(event.now.elements, models, last);
  if (ends_) found_.call_count = calls;
}

void LoneStart::on_backward(const StepDigest& last, std::int32_t calls) {
  brought_ = 0;
  if (!averages_ && before_ != last.step) {
    began_ = last;
    calls_began_ = calls;
  }
  before_ = last.step;
  ends_ = false;
}

void LoneStart::add(std::int64_t elements, const Models& models, const StepDigest& last) {
  if (last.step == 0) return;
  brought_ += static_cast<std::uint64_t>(std::max<std::int64_t>(elements, 0));
  const std::uint64_t trained = trained_in(models);
  // Where hooks rest, models are not known as yet.
  if (most_exchanged_ >= std::max<std::uint64_t>(trained, 1)) return;
  if (brought_ > 0 && brought_ >= trained) end_with(last, LoneEnd::kWithValues);
}

void LoneStart::add_exchanged(const CollectiveEvent& event, const StepDigest& last) {
  if (makes_equal(event.kind) || (last.step == 0 && before_ != last.step)) return;
  if (exchanged_after_ != last.step) exchanged_elements_ = 0;
  exchanged_after_ = last.step;
  exchanged_elements_ += static_cast<std::uint64_t>(std::max<std::int64_t>(event.elements, 0));
  most_exchanged_ = std::max(most_exchanged_, exchanged_elements_);
}

void LoneStart::end_with(const StepDigest& last, LoneEnd end) {
  if (last.step == 0) return;
  ends_ = true;
  found_ = {.steps = static_cast<std::int32_t>(last.step),
            .end = end,
            .optimizer_steps = last.optimizer_steps,
            .forwards = last.forwards,
            .backwards = last.backwards};
}

bool LoneStart::trained_others(const CollectiveEvent& event, const RunState& state) const {
  const auto is_new = [&state](const TensorState* tensor) {
    return !tensor->owners.empty() &&
           std::ranges::all_of(tensor->owners, [&state](OptimizerId owner) {
             const auto known = state.optimizers().find(owner);
             return known != state.optimizers().end() && known->second.never_stepped();
           });
  };
  const auto averaged = averaged_by(event, state);
  return !averaged.empty() && std::ranges::all_of(averaged, is_new);
}

std::optional<LoneSteps> LoneStart::take(const CollectiveEvent& event, const Models& models,
                                         const RunState& state) {
  if (averages_ || !event.averages) return std::nullopt;
  averages_ = true;
  const bool shared = most_exchanged_ >= std::max<std::uint64_t>(trained_in(models), 1);
  if (found_.steps < began_.step && !shared && trained_others(event, state)) {
    end_with(began_, LoneEnd::kWithValues);
    found_.call_count = calls_began_;
  }
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
