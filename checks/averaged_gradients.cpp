#include "checks/averaged_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "checks/finding_text.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxCycles = 16;
}

bool names_all_gradients(const CollectiveEvent& event) {
  return std::ssize(event.gradients_of) == event.list &&
         std::ranges::count(event.gradients_of, TensorId{0}) == 0;
}

void AveragedGradients::on(const CollectiveEvent& event) {
  const bool sums = event.reduce == ReduceKind::kSum || event.reduce == ReduceKind::kAverage;
  if (!sums || event.group_size < 2) return;
  for (const TensorId parameter : event.gradients_of) {
    if (parameter != 0) last_cycles_[parameter] = event.at.cycle;
  }
  const bool any_known = std::ranges::any_of(event.gradients_of, std::identity());
  if (first_step_ == 0 && (any_known || event.averages)) first_step_ = event.at.step;
  if (names_all_gradients(event)) return;
  Unnamed& unnamed = unnamed_[event.at.cycle];
  unnamed.largest = std::max(unnamed.largest, event.elements);
  unnamed.elements += event.elements;
  if (unnamed_.size() > kMaxCycles) unnamed_.erase(unnamed_.begin());
}

void AveragedGradients::on(const CycleEndEvent& event, const RunState& state) {
  const auto unnamed = unnamed_.find(event.at.cycle);
  if (unnamed == unnamed_.end()) return;
  for (const auto& [id, tensor] : state.tensors().all()) {
    if (tensor.gradient_cycle != event.at.cycle) continue;
    if (!covered_after(event.at.cycle - 1, id)) unnamed->second.gradients += tensor.info.elements;
  }
}

std::string AveragedGradients::extent() const {
  if (!last_cycles_.empty()) return counted(std::ssize(last_cycles_), "parameter");
  return fmt::format("{} in buffers", counted(unnamed_.begin()->second.elements, "element"));
}

bool AveragedGradients::covered_after(std::int64_t cycle, TensorId parameter) const {
  const auto last = last_cycles_.find(parameter);
  return last != last_cycles_.end() && last->second > cycle;
}

bool AveragedGradients::holds_all(const Unnamed& unnamed) {
  return unnamed.elements >= unnamed.gradients;
}

bool AveragedGradients::has_room(const Unnamed& unnamed, std::int64_t elements,
                                 std::int64_t new_elements) {
  const std::int64_t room = unnamed.elements - (unnamed.gradients - new_elements);
  return unnamed.largest >= elements && room >= elements;
}

bool AveragedGradients::missed_after(std::int64_t cycle, const TensorState& parameter,
                                     std::int64_t new_elements) const {
  if (!any() || covered_after(cycle, parameter.info.id)) return false;
  return std::ranges::none_of(unnamed_, [&](const auto& each) {
    const auto& [at, unnamed] = each;
    if (at < cycle) return !holds_all(unnamed);
    return at > cycle && has_room(unnamed, parameter.info.elements, new_elements);
  });
}

}  // namespace ddpscope
