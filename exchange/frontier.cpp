#include "exchange/frontier.h"

#include <algorithm>
#include <utility>

#include "exchange/ring_steps.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMillisecondNs = 1'000'000;
constexpr std::uint64_t kRecentCalls = 1024;

/// The first call after `seq` that did not return, or threw.
std::optional<CallRecord> first_open(const GroupMember& member, std::uint64_t group,
                                     std::uint64_t seq) {
  std::optional<CallRecord> open;
  if (member.calls == nullptr) return open;
  const auto block = member.calls->blocks.lower_bound((seq + 1) / kBlockCalls);
  if (block == member.calls->blocks.end()) return open;
  const RingReader& ring = *member.ring;
  for (std::uint64_t at = block->second.first_place; at < ring.call_count(); ++at) {
    const auto call = ring.call(at);
    if (!call || call->group != group || call->seq <= seq || !is_of_group(*call)) continue;
    if (call->state == CallState::kCompleted) continue;
    if (!open || call->seq < open->seq) open = call;
    if (open->seq == seq + 1) break;
  }
  return open;
}

std::int64_t median_wait_ms(const GroupMember& member, std::uint64_t group) {
  const RingReader& ring = *member.ring;
  const std::uint64_t recent = std::min(ring.call_count(), kRecentCalls);
  std::vector<double> waits_us;
  for (auto at = std::max(ring.first_call(), ring.call_count() - recent); at < ring.call_count();
       ++at) {
    const auto call = ring.call(at);
    if (!call || call->group != group || call->state != CallState::kCompleted) continue;
    waits_us.push_back(static_cast<double>(call->waited_us));
  }
  return static_cast<std::int64_t>(median(std::move(waits_us))) / 1000;
}

struct Wait {
  std::int64_t since_ns = 0;
  std::int64_t ms = 0;
};

/// A rank waits since the last thing that it noted.
Wait wait_of(const GroupMember& member, const CallRecord& call, const RankTimes& times) {
  const RingReader& ring = *member.ring;
  Wait wait{.since_ns = std::max<std::int64_t>(call.unix_ns, 0)};
  if (call.state == CallState::kFailed && call.waited_us > 0) {
    wait.ms = call.waited_us / 1000;
    return wait;
  }
  if (const auto last = ring.call_count() > 0 ? ring.call(ring.call_count() - 1) : std::nullopt) {
    wait.since_ns = std::max(wait.since_ns, last->unix_ns);
  }
  const auto digests = ring.digest_count();
  if (const auto last = digests > 0 ? ring.digest(digests - 1) : std::nullopt) {
    wait.since_ns = std::max(wait.since_ns, last->unix_ns);
  }
  const auto ended = times.ended_ns.find(member.rank());
  const std::int64_t end = ended == times.ended_ns.end() ? times.end_ns : ended->second;
  if (end > wait.since_ns) wait.ms = (end - wait.since_ns) / kMillisecondNs;
  return wait;
}

void add_waiting(Frontier& frontier, const GroupMember& member, const CallRecord& call,
                 const RankTimes& times) {
  if (frontier.seq == 0 || call.seq < frontier.seq) {
    frontier.seq = call.seq;
    frontier.call = compared_in_model(call, *member.ring);
  }
  frontier.waiting.push_back(member.rank());
  const Wait wait = wait_of(member, call, times);
  if (frontier.waiting.size() > 1 && wait.ms <= frontier.waited_ms) return;
  frontier.waited_ms = wait.ms;
  frontier.since_unix_ns = wait.since_ns;
  frontier.median_wait_ms = median_wait_ms(member, frontier.group);
}
}  // namespace

RankStand stand_of(const GroupMember& member, std::uint64_t group) {
  const RingReader& ring = *member.ring;
  const Heartbeat beat = ring.heartbeat();
  RankStand stand{.rank = member.rank(),
                  .last_seq = member.last_seq(),
                  .step = beat.step,
                  .phase = beat.phase,
                  .module = ring.name(beat.module),
                  .ended = beat.ended,
                  .beat_unix_ns = beat.unix_ns,
                  .progress = beat.progress};
  // Hearts beat once a second.
  const std::int64_t done = beat.ended ? 0 : last_ended_step(ring);
  if (done > 0) stand.step = std::max(stand.step, done + 1);
  if (member.calls == nullptr) return stand;
  if (const auto last = ring.call(member.calls->last_place); last && last->group == group) {
    stand.last = compared(*last, ring);
    stand.step = std::max<std::int64_t>(stand.step, last->step);
    stand.is_open = last->state != CallState::kCompleted;
  }
  return stand;
}

std::optional<Frontier> frontier_of(const CallGroup& group, const RankTimes& times) {
  const auto [least, most] =
      std::ranges::minmax(group.members, {}, [](const GroupMember& m) { return m.last_seq(); });
  const bool at_one = least.last_seq() == most.last_seq();
  if (most.last_seq() == 0 || (at_one && group.missing == 0)) return std::nullopt;

  // All of them may wait for one that left no ring.
  const std::uint64_t passed = least.last_seq() - (at_one ? 1 : 0);
  Frontier frontier{.group = group.key, .unknown = group.missing};
  for (const GroupMember& member : group.members) {
    if (member.last_seq() <= passed) continue;
    const auto open = first_open(member, group.key, passed);
    if (open) add_waiting(frontier, member, *open, times);
  }
  if (frontier.waiting.empty()) return std::nullopt;
  if (at_one && frontier.waiting.size() < group.members.size()) return std::nullopt;
  for (const GroupMember& member : group.members) {
    if (member.last_seq() < frontier.seq) frontier.behind.push_back(member.rank());
    frontier.stands.push_back(stand_of(member, group.key));
  }
  if (const CallRecord& call = frontier.call.record; call.norm_call != 0) {
    frontier.norm_calls = norm_calls_in(group, call.step);
  }
  return frontier;
}

}  // namespace ddpscope
