#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exchange/rank_ring.h"

namespace ddpscope {

/// The owner of storage that is no registered tensor and no gradient as far as the rank knows.
inline constexpr char kUnknownOwner[] = "bucket";

/// Whether what has that owner is a gradient, or may hold some.
inline bool may_hold_gradients(std::string_view owner) {
  return owner == kUnknownOwner || owner.ends_with(".grad");
}

/// What ranks must agree in.
struct CallKey {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ReduceKind reduce = ReduceKind::kNone;
  std::int32_t root = -1;
  std::uint32_t list = 0;
  std::uint64_t elements = 0;
  std::uint32_t norm_call = 0;

  bool operator==(const CallKey&) const = default;
};

/// Without what legally differs between ranks: the sizes of gathering and scattering calls.
CallKey key_of(const CallRecord& call);
/// A message between two ranks is not a call of the whole group.
bool is_of_group(const CallRecord& call);

inline constexpr std::uint64_t kBlockCalls = 64;

/// Calls of one group with seq / kBlockCalls equal: enough to see that two ranks agree.
struct CallBlock {
  std::uint64_t present = 0;  ///< one bit per call
  std::uint64_t typed = 0;    ///< one bit per call whose dtype is known
  std::uint64_t owned = 0;    ///< one bit per call whose owner is known
  std::uint64_t keys = 0;
  std::uint64_t dtypes = 0;
  std::uint64_t owners = 0;
  std::uint64_t first_place = 0;

  bool agrees(const CallBlock& other) const {
    return present == other.present && keys == other.keys && typed == other.typed &&
           dtypes == other.dtypes && owned == other.owned && owners == other.owners;
  }
};

/// The calls of one rank in one group.
struct GroupCalls {
  std::uint64_t last_seq = 0;
  std::uint64_t last_place = 0;
  std::uint64_t signature = 0;  ///< of all of them
  bool writes_gradients = false;
  std::vector<std::int32_t> write_steps;  ///< in which it did, in order
  std::map<std::uint64_t, CallBlock> blocks;
};

struct RankCalls {
  std::int64_t rank = 0;
  std::int64_t count = 0;
  std::int64_t last_unix_ns = 0;
  std::uint64_t last_group = 0;
  std::map<std::uint64_t, GroupCalls> groups;
};

/// One pass over the calls that a ring still has.
RankCalls read_calls(const RingReader& ring);

}  // namespace ddpscope
