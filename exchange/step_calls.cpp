#include "exchange/step_calls.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "exchange/call_blocks.h"
#include "exchange/tensor_compare.h"

namespace ddpscope {

namespace {
std::set<std::uint64_t> sizes_of_parameters(const RingReader& ring) {
  std::set<std::uint64_t> sizes;
  std::uint64_t all = 0;
  for (const auto& [model, list] :
       lists_at(ring.blobs(), std::numeric_limits<std::int64_t>::max())) {
    for (const ListedTensor& tensor : list.tensors) sizes.insert(elements_of(tensor));
    all += *sizes.insert(trained_elements(list)).first;
  }
  sizes.insert(all);
  return sizes;
}
}  // namespace

StepCalls::StepCalls(const RingReader& ring, const std::set<std::uint64_t>* groups,
                     std::size_t ranks)
    : known_from_(std::numeric_limits<std::int64_t>::max()), sizes_(sizes_of_parameters(ring)) {
  struct Owner {
    bool is_gradient = false;
    bool may_be = false;  ///< or holds some
  };
  std::map<NameId, Owner> owners;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    if (!call || (groups != nullptr && !groups->contains(call->group))) continue;
    // Of the step of the oldest call, others may be overwritten.
    const std::int64_t known = ring.first_call() == 0 ? 0 : std::int64_t{call->step} + 1;
    known_from_ = std::min(known_from_, known);
    const auto [known_owner, is_new] = owners.try_emplace(call->owner);
    Owner& owner = known_owner->second;
    if (is_new) {
      const std::string name = ring.name(call->owner);
      owner = {.is_gradient = name.ends_with(".grad"), .may_be = may_hold_gradients(name)};
    }
    const bool is_broadcast = call->kind == CollectiveKind::kBroadcast;
    const bool is_registered = call->owner != 0 && call->norm_call == 0 && !owner.may_be;
    if (!is_broadcast) (is_registered ? registered_ : others_)[call->step] += call->elements;
    if (!is_broadcast && !owner.is_gradient) elements_[call->step].push_back(call->elements);
    add_way(*call, ranks);
    if (owner.is_gradient) add_sum(*call);
    if (owner.may_be) {
      std::int64_t& most = most_ranks_[call->step];
      most = std::max(most, group_size(call->group));
    }
    const bool is_floating = ring.name(call->dtype).find("float") != std::string::npos;
    if (call->owner == 0) unnamed_.add(*call, is_floating);
    if (is_broadcast && call->step <= 1) continue;
    if (brings_outputs(*call, is_floating)) continue;
    std::uint64_t& sum = sums_[call->step];
    const bool is_known = !owner.is_gradient && sum != kOfGradient;
    sum = is_known ? std::min(sum + call->elements, kOfGradient - 1) : kOfGradient;
  }
}

void StepCalls::add_sum(const CallRecord& gradient) {
  const bool is_sum =
      gradient.reduce == ReduceKind::kSum && gradient.kind == CollectiveKind::kAllReduce;
  if (is_sum && gradient.list == 1) ++summed_[gradient.step][gradient.owner];
}

void StepCalls::add_way(const CallRecord& call, std::size_t ranks) {
  using enum CollectiveKind;
  const bool is_of_all = group_size(call.group) >= static_cast<std::int64_t>(ranks);
  const bool goes_to_all = call.kind == kAllReduce || call.kind == kAllGather;
  if (is_of_all && goes_to_all) to_all_[call.step] += call.elements;
  if (is_of_all && call.reduce != ReduceKind::kNone) {
    reduced_[call.step][call.reduce] += call.elements;
  }
  if (call.kind == kReduce || call.kind == kGather) to_one_rank_[call.step] += call.elements;
  if (call.kind == kAllToAll && call.owner == 0) {
    (call.phase == Phase::kForward ? routed_forward_ : routed_backward_).insert(call.step);
  }
  const bool is_of_start = call.step <= 1 && call.phase < Phase::kBackward;
  if (call.kind == kBroadcast && !is_of_start) broadcast_[call.step] += call.elements;
}

bool StepCalls::brings_outputs(const CallRecord& call, bool is_floating) const {
  using enum CollectiveKind;
  const bool is_gather = call.kind == kAllGather || call.kind == kAllToAll;
  return is_gather && is_floating && call.owner == 0 && call.phase == Phase::kForward &&
         !sizes_.contains(call.elements);
}

bool StepCalls::may_hold(std::int64_t step, const std::vector<std::uint64_t>& gradients,
                         std::uint64_t all) const {
  if (step < known_from_) return true;
  const auto found = elements_.find(step);
  if (found == elements_.end()) return false;
  const std::vector<std::uint64_t>& calls = found->second;
  const auto has = [&calls](std::uint64_t size) { return std::ranges::count(calls, size) > 0; };
  return std::ranges::all_of(gradients, has) || has(all) ||
         std::accumulate(calls.begin(), calls.end(), std::uint64_t{0}) == all;
}

bool StepCalls::have_fewer(std::int64_t step, std::uint64_t elements) const {
  if (step < known_from_) return false;
  const auto found = sums_.find(step);
  return found == sums_.end() || found->second < elements;
}

bool StepCalls::always_have_fewer(std::uint64_t elements) const {
  return std::ranges::all_of(sums_, [elements](const auto& sum) { return sum.second < elements; });
}

ReduceKind StepCalls::reduce(std::int64_t step, std::uint64_t elements) const {
  const auto found = reduced_.find(step);
  if (found == reduced_.end()) return ReduceKind::kNone;
  const auto count = [](const auto& one) { return one.second; };
  const auto& [reduce, most] = *std::ranges::max_element(found->second, {}, count);
  return most < elements ? ReduceKind::kNone : reduce;
}

bool StepCalls::go_to_one_rank(std::int64_t step, std::uint64_t elements) const {
  const auto found = to_one_rank_.find(step);
  if (found == to_one_rank_.end() || found->second < elements) return false;
  const auto sent = broadcast_.find(step);
  return sent == broadcast_.end() || sent->second < found->second;
}

bool StepCalls::go_to_all(std::int64_t step, std::uint64_t elements) const {
  const auto found = to_all_.find(step);
  return found != to_all_.end() && found->second >= elements;
}

bool StepCalls::are_of_registered(std::int64_t step, std::uint64_t elements) const {
  const auto found = registered_.find(step);
  if (found == registered_.end() || found->second < elements) return false;
  const auto others = others_.find(step);
  return others == others_.end() || others->second < elements;
}

std::int64_t StepCalls::most_ranks(std::int64_t step) const {
  const auto found = most_ranks_.find(step);
  return found == most_ranks_.end() ? 0 : found->second;
}

std::int64_t StepCalls::times_reduced(std::int64_t step) const {
  const auto found = summed_.find(step);
  if (found == summed_.end()) return 0;
  return std::ranges::min_element(found->second, {}, [](const auto& one) { return one.second; })
      ->second;
}

bool StepCalls::route_activations(std::int64_t step) const {
  return step < known_from_ || (routed_forward_.contains(step) && routed_backward_.contains(step));
}

bool StepCalls::may_bring_activations(std::int64_t step, std::uint64_t weights) const {
  return step < known_from_ || unnamed_.may_bring_activations(step, weights);
}

namespace {
std::uint64_t trained_elements(const RingReader& ring) {
  std::uint64_t elements = 0;
  for (const auto& [model, list] :
       lists_at(ring.blobs(), std::numeric_limits<std::int64_t>::max())) {
    elements += ddpscope::trained_elements(list);
  }
  return elements;
}
}  // namespace

bool exchanges_tensors(const RingReader& ring, const std::set<std::uint64_t>* groups) {
  return !StepCalls(ring, groups).always_have_fewer(trained_elements(ring) / 10 + 1);
}

bool broadcasts_at_start(const RingReader& ring) {
  std::uint64_t sent = 0;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    const bool is_early = call && call->step <= 1 && call->phase < Phase::kBackward;
    if (is_early && call->kind == CollectiveKind::kBroadcast) sent += call->elements;
  }
  return sent > 0 && sent >= trained_elements(ring);
}

}  // namespace ddpscope
