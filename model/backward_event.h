#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/autograd_event.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// The graph below the roots of a backward.
struct GraphShape {
  std::vector<TensorId> leaves;
  std::vector<TensorId> old_leaves;  ///< those that nodes of older cycles read
  std::int64_t nodes = 0;            ///< without leaves
  std::int64_t cycles_back = 0;      ///< from this cycle to the one that made the oldest node
  std::string oldest;                ///< that node
  std::string entry;             ///< nearest to the root, the node that reads from an older cycle
  std::optional<Doing> entered;  ///< what made the entry
};

/// What the program did with the gradients of a backward before the next one, as surveys see it.
enum class GradientFate : std::uint8_t {
  kUnknown,
  kLeft,   ///< no operator read them but those that measure, or write into, them
  kTaken,  ///< it computed something as large from one: it uses them by itself
};

/// Graphs of earlier steps that still exist in part, of one step in 16 each.
struct OldGraphs {
  std::int64_t alive = 0;
  std::int64_t since = 0;  ///< the step of the oldest of them
  std::int64_t died = 0;   ///< the newest step whose graph is gone, of those before this one
};

/// The begin of an outermost backward. Leaves and outputs are told on survey steps only.
struct BackwardEvent {
  Stamp at;
  bool surveyed = false;
  bool walked = false;  ///< so the graph is known: on survey steps, and while it grows
  bool accumulates = true;
  GradientFate last = GradientFate::kUnknown;  ///< of the gradients of the last one
  bool keep_graph = false;
  bool creates_graph = false;    ///< of the gradients themselves
  std::int64_t roots_alive = 0;  ///< of the last 64, those of earlier steps that still exist
  std::vector<TensorId> roots;   ///< those that a surveyed operator made, or that are leaves
  bool roots_are_leaves = false;
  double root_gradient = 1;  ///< of one root, where it is one number in host memory; else 1
  StackId stack = 0;         ///< of a root that is a leaf
  GraphShape graph;
  std::vector<TensorId> alive_outputs;
  std::vector<TensorId> asked;         ///< leaves for whose gradient autograd::grad() was called
  std::optional<OldGraphs> trained;    ///< of losses; told where the graph of this one is added
  std::optional<OldGraphs> evaluated;  ///< of forwards in eval mode
};

/// A backward asked for tensors that an earlier one freed, and was left by LibTorch's exception.
struct GraphFreedEvent {
  Stamp at;
  std::string node;  ///< whose tensors were gone
  Doing second;
  bool rested = false;         ///< some cycles were not watched, to keep to the setting `overhead`
  std::optional<Doing> first;  ///< the pass that freed them
  bool established = false;    ///< the first pass's graph was compared node by node
  std::int64_t shared_nodes = 0;
  std::string shared;  ///< the shared node nearest to the failing root
  std::optional<Doing> shared_made;
};

/// A node of a running backward called another backward.
struct NestedBackwardEvent {
  Stamp at;
  int depth = 2;
  std::string node;
  ModuleId module = 0;
};

struct BackwardEndEvent {
  Stamp at;
  bool threw = false;
};

/// What a parameter's gradient was just before a new one was added to it.
enum class GradientBefore : std::uint8_t {
  kUndefined,
  kReset,  ///< changed since the last accumulation or step by something else, or another tensor
  kZero,   ///< unchanged and all zero
  kKept,   ///< unchanged and not known to be zero
};

/// One `AccumulateGrad` of a leaf.
struct GradientEvent {
  Stamp at;
  TensorId tensor = 0;
  GradientBefore before = GradientBefore::kUndefined;
  bool defined = true;  ///< the incoming gradient is a tensor
  bool hooked = false;  ///< the program's own hooks wait for this gradient
  int depth = 1;        ///< 2 inside a backward that a node of a backward called, and so on
  bool outlived_update = false;  ///< the leaf was written since its last gradient, and that was not
                                 ///< changed after it
  std::uint64_t storage = 0;     ///< of the leaf now, which set_data() moves; 0: it has none
  std::uint64_t gradient_storage = 0;  ///< of its gradient, or of the incoming one; 0: not known
};

}  // namespace ddpscope
