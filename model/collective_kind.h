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

/// Whether a rank gets by it what others hold, and no sum.
constexpr bool brings_tensors(CollectiveKind kind) {
  using enum CollectiveKind;
  return kind == kBroadcast || kind == kAllGather || kind == kScatter || kind == kReceive;
}
/// Whether it sums up what the ranks hold, or reduces it in another way.
constexpr bool reduces_tensors(CollectiveKind kind) {
  using enum CollectiveKind;
  return kind == kAllReduce || kind == kReduce || kind == kReduceScatter;
}

}  // namespace ddpscope
