#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Parameters that ranks send each other once an optimizer has stepped: each steps a part of them.
class SentParameters {
 public:
  void on(const CollectiveEvent& event);
  void on(const OptimizerStepEvent& event);
  /// The collective in which others send it to this rank; empty if none was seen.
  std::string call_of(TensorId parameter) const;
  /// It is this rank that sends it to others.
  bool is_sent_from_here(TensorId parameter) const { return from_here_.contains(parameter); }
  /// Whether an optimizer steps tensors that no module registers, and the ranks then gather at
  /// least as many elements as these parameters have.
  bool gathers(const std::vector<const TensorState*>& parameters, const RunState& state) const;

 private:
  bool stepped_ = false;
  std::map<TensorId, CollectiveKind> sent_;
  std::set<TensorId> from_here_;
  std::int64_t gathered_ = 0;  ///< elements since the last step
  std::int64_t most_gathered_ = 0;
};

}  // namespace ddpscope
