#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// So many cycles without a gradient make a parameter missing, and are searched for the cause.
inline constexpr std::int64_t kMissingCycles = 4;

/// The cause of those that had one until it was cleared; no answer of `missing_cause_of`.
inline constexpr char kClearedBeforeStep[] = "cleared_before_step";

/// Whether it is trained as far as is known, and its gradient comes from backward.
bool expects_gradient(const RunState& state, const TensorState& tensor);

/// Whether in this cycle its model had gradients, or its optimizer stepped and no member of that
/// had one, or an operator reads it on a gradient path.
bool was_trained(const RunState& state, const TensorState& tensor, std::int64_t cycle);

/// Its model has parameters in an optimizer.
bool is_beside_members(const RunState& state, const TensorState& tensor);

/// Targets and averages: in no optimizer, never had a gradient, written, or read without a gradient
/// path, `cause`, where the model has parameters in an optimizer.
bool is_copy(const RunState& state, const TensorState& tensor, const std::string& cause);

/// Why a parameter got no gradient, in a word of the catalogue, and where its path ends.
struct MissingCause {
  std::string name;  ///< empty: undecided
  std::string op = {};
  std::vector<std::int64_t> shape = {};
  std::string cut_op = {};  ///< of a cut: the operator after which the path is gone
  StackId cut_stack = 0;
  bool was_reached = false;  ///< undecided, though operators were recorded: a backward came there
};

/// Those that a report tells apart: by cause and by where their paths end.
class MissingTensors {
 public:
  struct OfCause {
    MissingCause cause;  ///< of the first; without a shape where theirs differ
    std::vector<const TensorState*> tensors;
  };
  void add(const TensorState& tensor, const MissingCause& cause);
  const std::vector<OfCause>& by_cause() const { return all_; }

 private:
  std::vector<OfCause> all_;
};

/// In the last `cycles`.
MissingCause missing_cause_of(const RunState& state, const TensorState& tensor,
                              std::int64_t cycles = kMissingCycles);

}  // namespace ddpscope
