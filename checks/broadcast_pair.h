#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checks/loss_ops.h"

namespace ddpscope {

/// Two operands of a loss that LibTorch brought to one shape.
struct BroadcastPair {
  Operand a;
  Operand b;
  std::vector<std::int64_t> shape;  ///< of both together
  std::string cause;                ///< both_broadcast, one_sided or broadcast_before
  /// Of `broadcast_before`: what made all pairs of two lists, one of which is the larger operand.
  const OpTrace::Record* before = nullptr;
};

/// What the operator broadcast, if a loss does that by mistake only.
std::optional<BroadcastPair> broadcast_of(const OpTrace::Record& record, const RunState& state);

/// The finding of loss-broadcast.
Finding broadcast_finding(const OpTrace::Record& record, const BroadcastPair& pair,
                          const RunState& state);

}  // namespace ddpscope
