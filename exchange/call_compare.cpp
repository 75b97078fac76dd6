#include "exchange/call_compare.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "exchange/sides.h"

namespace ddpscope {
namespace {
constexpr std::uint64_t kHistory = 8192;

using BlockCalls = std::array<std::optional<CallRecord>, kBlockCalls>;

/// Members that still know calls of one block.
struct Holder {
  const RingReader* ring = nullptr;
  const CallBlock* block = nullptr;
};

/// What one rank issued under a number.
struct Issued {
  const RingReader* ring = nullptr;
  CallRecord record;
};

struct Side {
  CallKey key;
  std::string dtype;
  std::string owner;
  RankList ranks;
  Issued first;
};

std::vector<Holder> holders_of(const CallGroup& group, std::uint64_t number) {
  std::vector<Holder> holders;
  for (const GroupMember& member : group.members) {
    if (member.calls == nullptr) continue;
    const auto block = member.calls->blocks.find(number);
    if (block != member.calls->blocks.end()) holders.push_back({member.ring, &block->second});
  }
  return holders;
}

BlockCalls read_block(const Holder& holder, std::uint64_t group, std::uint64_t number) {
  BlockCalls calls;
  std::uint64_t left = holder.block->present;
  for (auto at = holder.block->first_place; left != 0 && at < holder.ring->call_count(); ++at) {
    const auto call = holder.ring->call(at);
    if (!call || call->group != group || !is_of_group(*call)) continue;
    if (call->seq / kBlockCalls != number) continue;
    const std::uint64_t bit = call->seq % kBlockCalls;
    if ((left >> bit & 1) == 0) continue;
    left &= ~(std::uint64_t{1} << bit);
    calls[bit] = call;
  }
  return calls;
}

Side side_of(const Issued& call) {
  const CallRecord& record = call.record;
  const bool is_barrier = record.kind == CollectiveKind::kBarrier;
  const std::string owner = call.ring->name(record.owner);
  return {.key = key_of(record),
          .dtype = is_barrier ? "" : call.ring->name(record.dtype),
          .owner = owner == kUnknownOwner ? "" : owner,
          .ranks = {call.ring->head().rank},
          .first = call};
}

void add(std::vector<Side>& sides, const Side& side, const auto& member) {
  const auto same = std::ranges::find(sides, std::invoke(member, side), member);
  if (same == sides.end()) {
    sides.push_back(side);
  } else {
    same->ranks.push_back(side.ranks.front());
  }
}

/// By key; where all agree in it, by the dtypes and then by the owners that are known.
std::vector<Side> sides_of(const std::vector<Issued>& calls) {
  std::vector<Side> by_key;
  std::vector<Side> by_dtype;
  std::vector<Side> by_owner;
  for (const Issued& call : calls) {
    const Side side = side_of(call);
    add(by_key, side, &Side::key);
    if (!side.dtype.empty()) add(by_dtype, side, &Side::dtype);
    if (!side.owner.empty()) add(by_owner, side, &Side::owner);
  }
  if (by_key.size() > 1) return by_key;
  return by_dtype.size() > 1 ? by_dtype : by_owner;
}

bool texts_differ(const std::vector<Side>& sides, std::string Side::*text) {
  const std::string& first = sides.front().*text;
  return std::ranges::any_of(sides, [&](const Side& side) {
    return !first.empty() && !(side.*text).empty() && side.*text != first;
  });
}

std::vector<std::string> differing_fields(const std::vector<Side>& sides) {
  const auto differs = [&sides](auto member) {
    return std::ranges::any_of(sides, [&](const Side& side) {
      return std::invoke(member, side.key) != std::invoke(member, sides.front().key);
    });
  };
  std::vector<std::string> fields;
  if (differs(&CallKey::kind)) fields.push_back("kind");
  if (differs(&CallKey::reduce)) fields.push_back("reduce");
  if (differs(&CallKey::list)) fields.push_back("list");
  if (differs(&CallKey::elements)) fields.push_back("elements");
  if (texts_differ(sides, &Side::dtype)) fields.push_back("dtype");
  if (differs(&CallKey::root)) fields.push_back("root");
  if (differs(&CallKey::norm_call)) fields.push_back("layer_call");
  if (texts_differ(sides, &Side::owner)) fields.push_back("owner");
  return fields;
}

/// Of a synchronised batch norm the number of the call differs each time.
CallKey key_of_kind(CallRecord call) {
  call.norm_call = norm_call(norm_phase(call.norm_call), 0);
  return key_of(call);
}

bool is_alike(const CallRecord& a, const CallRecord& b) {
  return a.owner == b.owner && a.dtype == b.dtype && key_of_kind(a) == key_of_kind(b);
}

/// Whether this call followed the one before it the last time that the rank issued that one.
bool is_as_before(const Issued& call, std::uint64_t group) {
  const RingReader& ring = *call.ring;
  std::map<std::uint64_t, CallRecord> earlier;
  const std::uint64_t recent = std::min(ring.call_count(), kHistory);
  for (auto at = std::max(ring.first_call(), ring.call_count() - recent); at < ring.call_count();
       ++at) {
    const auto one = ring.call(at);
    if (one && one->group == group && is_of_group(*one)) earlier.emplace(one->seq, *one);
  }
  const auto before = earlier.find(call.record.seq - 1);
  for (auto at = before; at != earlier.end() && at != earlier.begin();) {
    --at;
    const auto next = std::next(at);
    if (next->first != at->first + 1 || !is_alike(at->second, before->second)) continue;
    return is_alike(next->second, call.record);
  }
  return false;
}

CallsDiffer as_difference(const CallGroup& group, std::uint64_t seq, std::vector<Side> sides) {
  std::ranges::sort(sides,
                    [](const Side& a, const Side& b) { return is_minority(a.ranks, b.ranks); });
  CallsDiffer difference{.group = group.key, .seq = seq, .step = sides.front().first.record.step};
  difference.fields = differing_fields(sides);
  std::size_t known = 0;
  for (const Side& side : sides) {
    const Issued& call = side.first;
    difference.sides.push_back(
        {compared_in_model(call.record, *call.ring), side.ranks, is_as_before(call, group.key)});
    difference.step = std::min<std::int64_t>(difference.step, call.record.step);
    known += side.ranks.size();
  }
  const auto members = static_cast<std::int64_t>(group.members.size()) + group.missing;
  difference.missing = members - static_cast<std::int64_t>(known);
  const bool of_norm = std::ranges::any_of(
      difference.sides, [](const CallSide& side) { return side.call.record.norm_call != 0; });
  if (of_norm) difference.norm_calls = norm_calls_in(group, difference.step);
  return difference;
}

std::optional<CallsDiffer> difference_in(const CallGroup& group, std::uint64_t number,
                                         const std::vector<Holder>& holders) {
  std::vector<BlockCalls> calls;
  for (const Holder& holder : holders) calls.push_back(read_block(holder, group.key, number));
  for (std::uint64_t bit = 0; bit < kBlockCalls; ++bit) {
    std::vector<Issued> issued;
    for (std::size_t i = 0; i < holders.size(); ++i) {
      if (calls[i][bit]) issued.push_back({holders[i].ring, *calls[i][bit]});
    }
    std::vector<Side> sides = sides_of(issued);
    if (sides.size() > 1) {
      return as_difference(group, number * kBlockCalls + bit, std::move(sides));
    }
  }
  return std::nullopt;
}
}  // namespace

std::optional<CallsDiffer> first_difference(const CallGroup& group) {
  std::set<std::uint64_t> numbers;
  for (const GroupMember& member : group.members) {
    if (member.calls == nullptr) continue;
    for (const auto& [number, block] : member.calls->blocks) numbers.insert(number);
  }
  for (const std::uint64_t number : numbers) {
    const std::vector<Holder> holders = holders_of(group, number);
    const bool all_agree = std::ranges::all_of(holders, [&holders](const Holder& holder) {
      return holder.block->agrees(*holders.front().block);
    });
    if (holders.size() < 2 || all_agree) continue;
    if (auto difference = difference_in(group, number, holders)) return difference;
  }
  return std::nullopt;
}

}  // namespace ddpscope
