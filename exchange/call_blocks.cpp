#include "exchange/call_blocks.h"

#include <algorithm>
#include <functional>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxGroups = 1024;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

bool has_root(CollectiveKind kind) {
  using enum CollectiveKind;
  return kind == kBroadcast || kind == kReduce || kind == kGather || kind == kScatter;
}

/// Ranks may give and take different amounts.
bool is_uneven(CollectiveKind kind) {
  using enum CollectiveKind;
  return kind == kAllGather || kind == kGather || kind == kScatter || kind == kAllToAll;
}

bool reduces(CollectiveKind kind) {
  using enum CollectiveKind;
  return kind == kAllReduce || kind == kReduce || kind == kReduceScatter;
}

/// Names of one ring, looked up once each.
class Names {
 public:
  struct Known {
    std::uint64_t hash = 0;  ///< 0: a ring that was cut off does not tell
    bool is_gradient = false;
  };
  explicit Names(const RingReader& ring) : ring_(ring) {}
  Known of(NameId id) {
    const auto [known, is_new] = known_.try_emplace(id);
    if (is_new) {
      const std::string name = ring_.name(id);
      known->second = {name.empty() ? 0 : std::hash<std::string>()(name) | 1,
                       may_hold_gradients(name)};
    }
    return known->second;
  }

 private:
  const RingReader& ring_;
  std::unordered_map<NameId, Known> known_;
};

/// Equal for calls of equal keys.
std::uint64_t hash_of(const CallRecord& call) {
  const bool is_barrier = call.kind == CollectiveKind::kBarrier;
  const bool has_sizes = !is_barrier && !is_uneven(call.kind);
  std::uint64_t hash = mix(call.seq, static_cast<std::uint64_t>(call.kind));
  hash = mix(hash, is_barrier ? 0 : static_cast<std::uint64_t>(call.reduce));
  hash = mix(hash, has_root(call.kind) ? static_cast<std::uint64_t>(call.root) : 0);
  hash = mix(hash, has_sizes ? call.list : 0);
  hash = mix(hash, has_sizes ? call.elements : 0);
  return mix(hash, call.norm_call);
}

void add(GroupCalls& calls, const CallRecord& call, std::uint64_t place, Names& names) {
  const std::uint64_t number = call.seq / kBlockCalls;
  auto at = calls.blocks.empty() ? calls.blocks.end() : std::prev(calls.blocks.end());
  if (at == calls.blocks.end() || at->first != number) {
    at = calls.blocks.try_emplace(number, CallBlock{.first_place = place}).first;
  }
  CallBlock& block = at->second;
  const std::uint64_t bit = std::uint64_t{1} << (call.seq % kBlockCalls);
  if ((block.present & bit) != 0) return;
  const std::uint64_t key = hash_of(call);
  block.present |= bit;
  block.keys += key;
  calls.signature += key;
  if (call.seq >= calls.last_seq) {
    calls.last_seq = call.seq;
    calls.last_place = place;
  }
  const Names::Known dtype = names.of(call.dtype);
  if (dtype.hash != 0 && call.kind != CollectiveKind::kBarrier) {
    block.typed |= bit;
    block.dtypes += mix(call.seq, dtype.hash);
    calls.signature += mix(key, dtype.hash);
  }
  const Names::Known owner = names.of(call.owner);
  if (owner.hash == 0) return;
  block.owned |= bit;
  block.owners += mix(call.seq, owner.hash);
  calls.signature += mix(key, owner.hash + 1);
  if (!reduces(call.kind) || !owner.is_gradient) return;
  calls.writes_gradients = true;
  std::vector<std::int32_t>& steps = calls.write_steps;
  if (steps.empty() || steps.back() != call.step) steps.push_back(call.step);
}
}  // namespace

CallKey key_of(const CallRecord& call) {
  CallKey key{.kind = call.kind, .norm_call = call.norm_call};
  if (call.kind == CollectiveKind::kBarrier) return key;
  key.reduce = call.reduce;
  if (has_root(call.kind)) key.root = call.root;
  if (is_uneven(call.kind)) return key;
  key.list = call.list;
  key.elements = call.elements;
  return key;
}

bool is_of_group(const CallRecord& call) {
  return call.group != 0 && call.seq != 0 && call.kind != CollectiveKind::kSend &&
         call.kind != CollectiveKind::kReceive;
}

RankCalls read_calls(const RingReader& ring) {
  RankCalls calls{.rank = ring.head().rank};
  Names names(ring);
  for (std::uint64_t place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    if (!call || !is_of_group(*call)) continue;
    if (calls.groups.size() >= kMaxGroups && !calls.groups.contains(call->group)) continue;
    add(calls.groups[call->group], *call, place, names);
    ++calls.count;
    calls.last_unix_ns = std::max(calls.last_unix_ns, call->unix_ns);
    calls.last_group = call->group;
  }
  return calls;
}

}  // namespace ddpscope
