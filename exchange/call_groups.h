#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exchange/call_blocks.h"
#include "exchange/rank_ring.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// One rank in one group.
struct GroupMember {
  const RingReader* ring = nullptr;
  const GroupCalls* calls = nullptr;  ///< null: it issued none that is still known

  std::int64_t rank() const { return ring->head().rank; }
  std::uint64_t last_seq() const { return calls == nullptr ? 0 : calls->last_seq; }
};

struct CallGroup {
  std::uint64_t key = 0;
  std::int64_t missing = 0;  ///< members without a ring
  std::vector<GroupMember> members;
};

struct CallGroups {
  std::vector<CallGroup> groups;     ///< with two members or more
  std::vector<std::string> remarks;  ///< groups that could not be told apart
};

/// Which ranks form which group. Groups of one key (equal name and size) are told apart by what
/// their members issued: ranks with equal calls belong together, and the rest if they are as many
/// as one group has.
CallGroups call_groups(const std::vector<RingReader>& rings, const std::vector<RankCalls>& calls,
                       std::int64_t world_size);

/// A call of `member`; nothing where the ring no longer has it.
std::optional<CallRecord> find_call(const GroupMember& member, std::uint64_t group,
                                    std::uint64_t seq);

/// How many calls of synchronised batch norm each member issued in this step, as text.
std::vector<RankSide> norm_calls_in(const CallGroup& group, std::int64_t step);

ComparedCall compared(const CallRecord& call, const RingReader& ring);
/// The same with its site, and with the owner's path in the model that was attached last; reads its
/// list of tensors.
ComparedCall compared_in_model(const CallRecord& call, const RingReader& ring);

}  // namespace ddpscope
