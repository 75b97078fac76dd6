#pragma once

#include <cstdint>

namespace ddpscope {

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive,
  kBarrier,
};

}  // namespace ddpscope
