#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "checks/gradient_presence.h"
#include "checks/run_state.h"

namespace ddpscope {

/// Branches of one kind, as experts or one norm for each domain: their tensors have one shape, and
/// paths that differ in one number. If some are taken now and then, one that was not taken yet may
/// be as well.
class SiblingBranches {
 public:
  SiblingBranches(const std::unordered_map<TensorId, GradientPresence>& presences,
                  const RunState& state);
  /// Whether a parameter that had no gradient in so many cycles may still get its first.
  bool may_come(const TensorState& tensor, std::int64_t cycles) const;

 private:
  std::map<std::string, std::int64_t> distances_;  ///< the largest of what is taken now and then
};

}  // namespace ddpscope
