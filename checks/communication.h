#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// What one cycle sent to other ranks.
struct CycleTraffic {
  std::int64_t calls = 0;             ///< sums over ranks
  std::int64_t summed_backwards = 0;  ///< backwards that some of these followed
  std::int64_t bytes = 0;             ///< of these
  std::int64_t backward_bytes = 0;    ///< issued while backward ran
  std::int64_t gradient_bytes = 0;    ///< of what the optimizers that stepped hold
  double median_bytes = 0;            ///< of a call
  double waited_ms = 0;               ///< with no backward running
  double wall_ms = 0;                 ///< of its steps
  bool sharded = false;               ///< gradients are scattered, parameters gathered
  bool searches = false;              ///< an optimizer asks for the gradient several times
  std::set<TensorId> broadcast = {};  ///< registered buffers
};

/// What cycles usually send: medians, and shares of them.
struct UsualTraffic {
  double calls = 0;
  double summed_backwards = 0;
  double bytes = 0;
  double median_bytes = 0;
  double bytes_ratio = 0;    ///< of the bytes of the gradients that are stepped
  double overlap_ratio = 0;  ///< of the bytes, issued while backward ran
  double waited_ms = 0;
  double wait_ratio = 0;  ///< of the time of the cycle
};
UsualTraffic usual_of(const std::vector<CycleTraffic>& cycles);

/// Sums up the calls of each cycle.
class Communication {
 public:
  void on(const CollectiveEvent& event, const RunState& state);
  void on(const CollectiveEndEvent& event);
  void on(const OptimizerStepEvent& event, const RunState& state);
  void backward_runs(bool runs) {
    in_backward_ = runs;
    if (runs) is_summed_ = false;
  }
  /// The cycle that ends, and forgets it.
  CycleTraffic on(const CycleEndEvent& event);

 private:
  CycleTraffic now_;
  std::vector<double> call_bytes_;
  bool in_backward_ = false;
  bool is_summed_ = true;  ///< the last backward
};

}  // namespace ddpscope
