#include "exchange/unnamed_calls.h"

#include <algorithm>
#include <set>
#include <string>

namespace ddpscope {

void UnnamedCalls::add(const CallRecord& call, bool is_floating) {
  using enum CollectiveKind;
  constexpr std::uint64_t kFewNumbers = 64;
  if (!is_floating || call.elements <= kFewNumbers || call.norm_call != 0) return;
  const bool is_before = call.phase == Phase::kForward || call.phase == Phase::kBackward;
  OfStep& step = steps_[call.step];
  if (call.kind == kSend || call.kind == kReceive) {
    (call.kind == kSend ? step.sent : step.received) = true;
    step.before_gradients |= is_before;
  } else if (is_before && (call.kind == kAllGather || call.kind == kAllToAll)) {
    step.gathered += call.elements * static_cast<std::uint64_t>(group_size(call.group));
  }
}

bool UnnamedCalls::may_bring_activations(std::int64_t step, std::uint64_t weights) const {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return false;
  const OfStep& of = found->second;
  // Parts of weights have some elements more together, where all parts have one size.
  const bool are_weights = of.gathered >= weights && of.gathered <= weights + weights / 8;
  if (of.gathered > 0 && !are_weights) return true;
  return of.before_gradients && of.sent && of.received;
}

namespace {
std::set<std::uint64_t> groups_of(const RingList& rings) {
  std::set<std::uint64_t> groups;
  for (const RingReader* ring : rings) {
    for (auto place = ring->first_call(); place < ring->call_count(); ++place) {
      if (const auto call = ring->call(place)) groups.insert(call->group);
    }
  }
  return groups;
}
}  // namespace

UnnamedCalls unnamed_calls_among(const RingList& rings) {
  UnnamedCalls among;
  const RingReader& first = *rings.front();
  const auto shared = groups_of(RingList(rings.begin() + 1, rings.end()));
  const auto is_message_to_others = [&](const CallRecord& call) {
    const bool is_message =
        call.kind == CollectiveKind::kSend || call.kind == CollectiveKind::kReceive;
    // Of smaller groups, which rank of the run another one is is not known.
    if (!is_message || group_size(call.group) != first.head().world_size) return false;
    return call.root >= 0 && std::ranges::none_of(rings, [&call](const RingReader* ring) {
             return ring->head().rank == call.root;
           });
  };
  for (auto place = first.first_call(); place < first.call_count(); ++place) {
    const auto call = first.call(place);
    if (!call || call->owner != 0 || !shared.contains(call->group)) continue;
    if (is_message_to_others(*call)) continue;
    among.add(*call, first.name(call->dtype).find("float") != std::string::npos);
  }
  return among;
}

}  // namespace ddpscope
