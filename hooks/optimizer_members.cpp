#include "hooks/optimizer_members.h"

#include <c10/util/Type.h>

#include <bit>

#include "hooks/capture.h"
#include "hooks/zero_gradients.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;

struct Seen {
  Hash members;
  bool some_gradient = false;
  bool changed = false;  ///< of some
};

/// The gradient of a member at a step; of another optimizer, too.
void see_gradient(Capture& capture, TensorSlot& slot, const at::Tensor& member, Seen& seen) {
  const bool is_added_to = slot.is_added_to.exchange(false, std::memory_order_relaxed);
  seen.some_gradient |= has_gradient(member);
  seen.changed |= is_added_to || (has_gradient(member) &&
                                  gradient_before(slot, member, false) != GradientBefore::kKept);
  remember_gradient(slot, member, capture.writes().next());
}

Seen see_members(Capture& capture, const std::vector<OptimizerParamGroup>& groups, bool at_step) {
  Seen seen;
  for (const GroupOptions& options : options_of(groups)) {
    seen.members.fold(std::bit_cast<std::uint64_t>(options.weight_decay));
    seen.members.fold(std::bit_cast<std::uint64_t>(options.momentum));
    seen.members.fold(options.others);
  }
  for (const OptimizerParamGroup& group : groups) {
    seen.members.fold(group.params().size());
    for (const at::Tensor& member : group.params()) {
      if (!member.defined()) continue;
      TensorSlot& slot = capture.tensors().slot(member);
      seen.members.fold((slot.id << 2) | (member.requires_grad() ? 2 : 0) |
                        (has_gradient(member) ? 1 : 0));
      if (at_step) see_gradient(capture, slot, member, seen);
    }
  }
  return seen;
}

/// Of one whose constructor has returned, by the name of its class.
void tell_built(Capture& capture, const Optimizer& optimizer, const KnownOptimizer& known) {
  tell_members(capture, members_of(optimizer), known, name_of(optimizer));
}
}  // namespace

Members members_of(const Optimizer& optimizer) {
  Members members{.options = options_of(optimizer.param_groups())};
  for (const OptimizerParamGroup& group : optimizer.param_groups()) {
    members.groups.push_back(group.params());
  }
  return members;
}

void tell_members(Capture& capture, Members&& told, const KnownOptimizer& known, std::string type) {
  OptimizerMembersEvent event{.at = capture.marker().now(),
                              .optimizer = known.id,
                              .type = std::move(type),
                              .name = known.name,
                              .options = std::move(told.options)};
  for (const std::vector<at::Tensor>& group : told.groups) {
    auto& members = event.groups.emplace_back();
    for (const at::Tensor& member : group) {
      if (!member.defined()) continue;
      const Memory memory = memory_of(member);
      const TensorId id = capture.announce(member);
      if (capture.tensors().slot(member).computed) {  // told by its operator, for that step alone
        capture.put_large(TensorEvent{.at = event.at, .tensor = describe(member, id)});
      }
      members.push_back({.tensor = id,
                         .requires_grad = member.requires_grad(),
                         .grad_defined = has_gradient(member),
                         .storage = memory.storage,
                         .storage_offset_bytes = memory.offset_bytes});
    }
  }
  capture.put_large(std::move(event));
}

std::string name_of(const Optimizer& built) { return c10::demangle(typeid(built).name()); }

void tell_now(Capture& capture, const Optimizer& optimizer, KnownOptimizer& known) {
  known.told_hash =
      see_members(capture, optimizer.param_groups(), /*at_step=*/false).members.value();
  tell_built(capture, optimizer, known);
}

bool tell_if_changed(Capture& capture, const Optimizer& optimizer, KnownOptimizer& known) {
  const Seen seen = see_members(capture, optimizer.param_groups(), /*at_step=*/true);
  if (const std::uint64_t hash = seen.members.value(); hash != known.told_hash) {
    known.told_hash = hash;
    tell_built(capture, optimizer, known);
  }
  return seen.some_gradient && !seen.changed;
}

// Schedulers change a rate at every step: without the members. Where ranks are not compared, only
// whether all rates are 0, or one below, is asked for.
void tell_rates(Capture& capture, const std::vector<OptimizerParamGroup>& groups,
                KnownOptimizer& known) {
  const bool exactly = capture.options().compares_ranks;
  const std::uint64_t told = exactly ? hash_options(groups) : kind_of_rates(options_of(groups));
  if (told == std::exchange(known.told_rates, told)) return;
  capture.put_large(OptimizerRatesEvent{
      .at = capture.marker().now(), .optimizer = known.id, .options = options_of(groups)});
}

}  // namespace ddpscope
