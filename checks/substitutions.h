#pragma once

#include <map>
#include <string>
#include <utility>

#include "checks/run_state.h"

namespace ddpscope {

/// Remembers which leaves the operators of a module read that are not registered in it: one of
/// them can stand where a registered parameter or buffer should.
class Substitutions {
 public:
  void add(const OpEvent& event, const RunState& state);
  /// What is used in place of an unused parameter; null if nothing of its shape is.
  const TensorState* find(const TensorState& registered, const RunState& state) const;
  /// What a layer of LibTorch reads in this cycle in place of a buffer; null if it is not.
  const TensorState* find_for_buffer(const TensorState& buffer, std::int64_t cycle,
                                     const RunState& state) const;

 private:
  /// Of each leaf, the last cycle in which the module read it.
  using Leaves = std::map<TensorId, std::int64_t>;
  std::map<std::pair<ModelId, std::string>, Leaves> read_in_;
  std::map<TensorId, std::int64_t> buffers_read_;  ///< the last cycle in which each was
};

}  // namespace ddpscope
