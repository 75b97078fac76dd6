#include "checks/trainable_flags.h"

#include <tuple>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::int64_t kCyclesToStay = 2;
}

void TrainableFlags::see(TensorId tensor, bool trainable, const Stamp& at) {
  const auto [known, is_new] =
      flags_.try_emplace(tensor, Flag{.first = trainable, .now = trainable});
  Flag& flag = known->second;
  if (is_new || flag.now == trainable) return;
  flag.now = trainable;
  flag.step = at.step;
  flag.cycle = at.cycle;
  ++flag.turns;
  if (flag.known_cycle == at.cycle) flag.first = trainable;
}

// At the end of a step the tree is told with the number of the next one.
void TrainableFlags::on(const TreeEvent& event) {
  const bool of_last_step = !event.attached && event.at.step == last_step_.step + 1;
  if (event.attached && event.at.step > 1) renewed_cycle_ = event.at.cycle;
  for (const RegisteredTensor& registered : event.tensors) {
    if (registered.is_buffer || !registered.tensor.floating) continue;
    see(registered.tensor.id, registered.tensor.requires_grad,
        of_last_step ? last_step_ : event.at);
  }
}

void TrainableFlags::on(const OptimizerMembersEvent& event) {
  std::set<TensorId> members;
  for (const auto& group : event.groups) {
    for (const OptimizerMember& member : group) {
      members.insert(member.tensor);
      if (flags_.contains(member.tensor)) see(member.tensor, member.requires_grad, event.at);
    }
  }
  std::set<TensorId>& known = members_[event.optimizer];
  if (members == known) return;
  known = std::move(members);
  renewed_cycle_ = event.at.cycle;
}

void TrainableFlags::on(const OptimizerStepEvent& event) { last_step_ = event.at; }

std::vector<ChangedFlags> TrainableFlags::on(const CycleEndEvent& event, const RunState& state) {
  std::map<std::tuple<bool, std::int64_t>, ChangedFlags> changed;
  if (last_step_.step == 0) return {};
  for (auto& [id, flag] : flags_) {
    if (flag.known_cycle == 0) {
      flag.first = flag.now;
      flag.known_cycle = event.at.cycle;
    }
    flag.stayed = std::exchange(flag.turns, 0) == 0 ? flag.stayed + 1 : 0;
    if (flag.now == flag.first || flag.stayed < kCyclesToStay) continue;
    flag.first = flag.now;
    const TensorState* tensor = state.tensor(id);
    if (tensor == nullptr || tensor->registrations.empty() || renewed_cycle_ >= flag.cycle)
      continue;
    ChangedFlags& one = changed[{flag.now, flag.step}];
    one.trainable = flag.now;
    one.step = flag.step;
    one.cycle = flag.cycle;
    one.tensors.push_back(tensor);
  }
  std::vector<ChangedFlags> all;
  for (auto& [when, one] : changed) all.push_back(std::move(one));
  return all;
}

void TrainableFlags::forget_windows() {
  for (auto& [id, flag] : flags_) flag.stayed = 0;
}

}  // namespace ddpscope
