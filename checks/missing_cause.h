#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "checks/subtree.h"
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

/// An optimizer of this member stepped in that cycle, and none of its members had a gradient.
bool steps_for_nothing(const RunState& state, const TensorState& tensor, std::int64_t cycle);

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
  std::int64_t other_ops = 0;  ///< at which the paths of others end
  std::string cut_op = {};     ///< of a cut: the operator after which the path is gone
  StackId cut_stack = 0;
  bool is_cloned = false;         ///< all that ever read it is `clone()`
  bool was_read_early = false;    ///< of the cycles in which it was not used, in the first alone
  std::int64_t last_step = 0;     ///< in which it had a gradient; 0: never
  bool was_always_there = false;  ///< it had one in each cycle until then
  bool was_reached = false;  ///< undecided, though operators were recorded: a backward came there

  /// Not used any more: what enters now and then, as a learned initial state, is no layer to
  /// remove.
  bool was_used_before() const {
    return name == "not_used" && last_step > 0 && !is_cloned && !was_read_early;
  }
  bool is_told_with(const MissingCause& other) const {
    return name == other.name && was_used_before() == other.was_used_before();
  }
};

/// Those that a report tells apart: by cause, by where their paths end, and by subtree.
class MissingTensors {
 public:
  struct Found {
    MissingCause cause;  ///< of the first; without a shape where theirs differ
    TensorGroup group;
  };
  void add(const TensorState& tensor, const MissingCause& cause);
  /// Paths that end at several operators are told together where they are of one module, as those
  /// of an attention layer are.
  std::vector<Found> found(const RunState& state) const;

 private:
  struct OfCause {
    MissingCause cause;
    std::vector<const TensorState*> tensors;
  };
  std::vector<OfCause> parts_of(const TensorGroup& group, const MissingCause& cause) const;

  std::vector<OfCause> all_;
};

/// In the last `cycles`.
MissingCause missing_cause_of(const RunState& state, const TensorState& tensor,
                              std::int64_t cycles = kMissingCycles);

}  // namespace ddpscope
