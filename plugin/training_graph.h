#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checks/run_state.h"
#include "exchange/graph_compare.h"
#include "exchange/rank_ring.h"

namespace ddpscope {

/// Tells of each surveyed step the operators from parameters to losses, and of some more as well
/// which layers were in eval mode, to be compared with other ranks. Used by one thread.
class TrainingGraph {
 public:
  explicit TrainingGraph(std::function<void(const Blob&)> blob) : blob_(std::move(blob)) {}
  /// After the judge saw it.
  void saw(const Event& event, const RunState& state);

 private:
  void on(const BackwardEvent& event, const RunState& state);
  void add_operators(std::vector<TensorId> roots, const RunState& state);
  void add_modes(const RunState& state);

  std::function<void(const Blob&)> blob_;
  TrainedGraph graph_;     // of the step in progress
  std::int64_t told_ = 0;  // the last step of which its operators were
  bool lost_ = false;      // some of them are not known
};

}  // namespace ddpscope
