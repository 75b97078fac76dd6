#pragma once

#include <torch/csrc/autograd/function.h>

#include <optional>

#include "hooks/capture.h"
#include "model/backward_event.h"

namespace ddpscope {

/// How far the graph below these roots reaches back, and the leaves in it.
GraphShape graph_shape(Capture& capture, const torch::autograd::edge_list& roots);

/// Whether the last walk of this thread met nodes of older cycles, and more of them than before.
bool graph_grows() noexcept;

/// How many of the last 64 roots before this step are alive.
std::int64_t roots_alive(const Capture& capture);

/// What a backward leaves of its graph.
struct Leaves {
  bool whole = false;   ///< it was told to keep it
  bool beside = false;  ///< what does not lead to the inputs that it was given
};
/// Remembers the roots of a backward that begins.
void remember_roots(Capture& capture, const torch::autograd::edge_list& roots, Leaves leaves);

/// What this thread makes from now on belongs to the next cycle, unless another backward of this
/// cycle follows.
void backward_ended(const Capture& capture);

/// A node whose saved tensors a backward asked for after they had been freed; told at the end of
/// that backward.
void note_freed(const torch::autograd::Node& node);

/// After a backward that was left by an exception: which earlier one freed its nodes, if one did.
void tell_freed(Capture& capture, const torch::autograd::edge_list& roots);

}  // namespace ddpscope
