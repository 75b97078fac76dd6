#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooks/zero_gradients.h"
#include "model/update_event.h"

namespace ddpscope {

/// How much the steps of one optimizer change its members: beyond its 100th each dense CPU member
/// once in 16 steps, from a sample of its values and of its gradient; where hooks rest in between,
/// all of them in each step that is watched. A member whose sample did not change the last time is
/// compared in full, up to 16 MiB a step.
class ParameterUpdates {
 public:
  void begin(Capture& capture, const ParamGroups& groups);
  /// After the step; empty without a `begin` before it.
  std::vector<ParameterUpdate> end(Capture& capture, const ParamGroups& groups);

 private:
  struct Member {
    std::size_t group = 0;
    std::size_t index = 0;
    std::size_t position = 0;  ///< among all members of the optimizer
    ValueSample before;
    std::optional<std::size_t> bits;  ///< a hash of them
    ParameterUpdate update;
  };
  struct Seen {
    std::int64_t step = 0;  ///< of the last sample
    bool moves = false;     ///< something changed in it
  };
  bool is_due(std::size_t position, std::int64_t step) const;
  void add(Capture& capture, const torch::optim::OptimizerParamGroup& group, Member member);
  bool finish(Capture& capture, const ParamGroups& groups, Member& member);

  std::vector<Member> members_;
  std::vector<Seen> seen_;  ///< by position
  std::size_t budget_ = 0;  ///< in bytes
};

}  // namespace ddpscope
