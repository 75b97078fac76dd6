#include "tools/trace_calls.h"

#include <algorithm>
#include <iterator>

#include "checks/call_text.h"
#include "exchange/ring_set.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxCallsOfAll = 200'000;
constexpr std::size_t kMaxCallsOfRank = 20'000;

std::string name_of(const CallRecord& call, const RingReader& ring) {
  std::string name(call_word(call.kind));
  const std::string owner = ring.name(call.owner);
  return owner.empty() ? name : name + " of " + owner;
}

std::vector<CallSpan> calls_in(const RingReader& ring, std::size_t limit) {
  std::vector<CallSpan> calls;
  const std::uint64_t end = ring.call_count();
  const std::uint64_t begin =
      std::max(ring.first_call(), end - std::min<std::uint64_t>(end, limit));
  for (std::uint64_t place = begin; place < end; ++place) {
    const auto call = ring.call(place);
    if (!call) continue;
    calls.push_back({.name = name_of(*call, ring),
                     .step = call->step,
                     .unix_ns = call->unix_ns,
                     .waited_us = call->waited_us,
                     .has_ended = call->state != CallState::kIssued});
  }
  return calls;
}
}  // namespace

void add_calls(const std::vector<std::string>& dirs, MergedReport& report) {
  std::vector<RingPlace> places;
  for (const auto& dir : dirs) std::ranges::move(list_rings(dir), std::back_inserter(places));
  const RingSet set = open_rings(places, report.run_id);
  if (set.rings.empty()) return;
  const std::size_t limit = std::min(kMaxCallsOfRank, kMaxCallsOfAll / set.rings.size());
  for (const RingReader& ring : set.rings) {
    const auto rank = std::ranges::find(report.ranks, ring.head().rank,
                                        [](const RankState& state) { return state.run.rank; });
    if (rank != report.ranks.end()) rank->calls = calls_in(ring, limit);
  }
}

}  // namespace ddpscope
