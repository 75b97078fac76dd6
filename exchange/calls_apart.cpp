#include "exchange/calls_apart.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "exchange/call_blocks.h"
#include "exchange/sides.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kLasting = 2;                     // steps
using CallId = std::pair<std::uint64_t, std::uint64_t>;  ///< group and number in it
struct HashOfCall {
  std::size_t operator()(const CallId& id) const { return id.first * 31 + id.second; }
};
using StepOfCall = std::unordered_map<CallId, std::int64_t, HashOfCall>;

/// Of the averages of gradients that a ring still has.
template <class Visit>
void for_each_average(const RingReader& ring, const Visit& visit) {
  std::map<NameId, bool> of_gradients;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    if (!call || !is_of_group(*call) || call->step <= 0) continue;
    const auto [owner, is_new] = of_gradients.try_emplace(call->owner);
    if (is_new) owner->second = may_hold_gradients(ring.name(call->owner));
    if (owner->second && call->kind == CollectiveKind::kAllReduce) visit(*call);
  }
}

struct Apart {
  std::int64_t since = 0;   ///< the step of the rank that is behind
  std::int64_t first = 0;   ///< of the first rank then
  std::int64_t behind = 0;  ///< steps, by the last call that both have; negative: ahead
  std::int64_t last = 0;    ///< of the first rank by that call
};

/// How a rank's steps moved against those of the first one. Where that lasts.
std::optional<Apart> apart_from(const StepOfCall& first, const RingReader& ring) {
  std::optional<std::int64_t> usual;
  std::optional<Apart> apart;
  for_each_average(ring, [&](const CallRecord& call) {
    const auto same = first.find({call.group, call.seq});
    if (same == first.end()) return;
    const std::int64_t behind = same->second - call.step;
    if (!usual) usual = behind;
    if (behind == *usual) {
      apart.reset();
      return;
    }
    if (!apart) {
      const std::int64_t since = std::min<std::int64_t>(same->second, call.step);
      apart = Apart{.since = since, .first = same->second};
    }
    apart->behind = behind - *usual;
    apart->last = same->second;
  });
  // A thread that sends what another one computed may be a step behind for a while.
  const bool lasts = apart && apart->last - apart->first >= kLasting;
  return lasts ? apart : std::nullopt;
}

/// It made a step in which it called nothing: then it is this one that is ahead.
bool steps_without_calls(const RingReader& ring) {
  std::optional<StepDigest> before;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    const auto digest = ring.digest(place);
    if (!digest || digest->step <= 0 || digest->phase == Phase::kReduce) continue;
    const bool follows = before && digest->step == before->step + 1;
    if (follows && digest->call_count == before->call_count) return true;
    before = digest;
  }
  return false;
}

bool broadcasts_weights(const RingReader& ring) {
  std::uint64_t largest = 0;
  std::uint64_t sent = 0;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    if (!call || call->step <= 1) continue;
    const bool is_broadcast = call->kind == CollectiveKind::kBroadcast;
    sent += is_broadcast ? call->elements : 0;
    largest = std::max(largest, is_broadcast ? 0 : call->elements);
  }
  return sent > 0 && sent >= largest;
}
}  // namespace

void compare_steps_of_calls(const RingList& rings, Cohort& cohort) {
  using enum DigestField;
  const bool is_told = std::ranges::any_of(cohort.digests, [](const DigestsDiffer& differ) {
    return differ.field == kOptimizerSteps || differ.field == kSkippedSteps;
  });
  if (!cohort.averages || rings.size() < 2 || is_told) return;
  StepOfCall first;
  for_each_average(*rings.front(), [&](const CallRecord& call) {
    first[{call.group, call.seq}] = call.step;
  });
  std::int64_t since = 0;
  std::int64_t last = 0;
  std::map<std::int64_t, RankList> behind;
  for (const RingReader* ring : rings) {
    const auto apart = ring == rings.front() ? std::nullopt : apart_from(first, *ring);
    if (apart && (broadcasts_weights(*ring) || steps_without_calls(*ring))) return;
    behind[apart ? apart->behind : 0].push_back(ring->head().rank);
    if (!apart) continue;
    since = since == 0 ? apart->since : std::min(since, apart->since);
    last = std::max(last, apart->last);
  }
  if (behind.size() < 2 || steps_without_calls(*rings.front())) return;
  std::map<std::string, RankList> made;
  for (const auto& [steps, ranks] : behind) made[std::to_string(last - steps)] = ranks;
  cohort.digests.push_back({.field = kOptimizerSteps,
                            .step = since,
                            .first_step = since,
                            .consecutive = 2,
                            .last_step = last,
                            .equal_until = since - 1,
                            .differing = last - since + 1,
                            .compared = last - since + 1,
                            .sides = as_sides(made),
                            .by_calls = true});
}

}  // namespace ddpscope
