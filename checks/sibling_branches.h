#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "checks/gradient_presence.h"
#include "checks/run_state.h"

namespace ddpscope {

using GradientPresences = std::unordered_map<TensorId, GradientPresence>;
void forget_dead(GradientPresences& presences, const RunState& state);

enum class Branch : std::uint8_t {
  kNone,
  kMayCome,  ///< others of its kind come now and then, or one began when this one went
  kHead,     ///< never used yet, of a layer that cannot follow another of its kind, which is: one
             ///< of two heads that may be trained in turn
};

/// Branches of one kind, as experts or one norm for each domain: their tensors have one shape, and
/// paths that differ in one number. If some are taken now and then, one that was not taken yet may
/// be as well.
class SiblingBranches {
 public:
  SiblingBranches(const GradientPresences& presences, const RunState& state);
  /// Of a parameter that nothing uses now.
  Branch kind_of(const TensorState& tensor, const GradientPresence& presence,
                 const RunState& state) const;

 private:
  bool may_come(const TensorState& tensor, std::int64_t cycles) const;
  bool may_be_other_head(const TensorState& tensor, const RunState& state) const;
  bool took_turn(const TensorState& tensor, const GradientPresence& presence,
                 const RunState& state) const;

  std::map<std::string, std::int64_t> distances_;  ///< the largest of what is taken now and then
  std::set<std::string> heads_;                    ///< kinds of layers that get gradients
  std::set<std::pair<ModelId, std::int64_t>> begins_;  ///< cycles
};

}  // namespace ddpscope
