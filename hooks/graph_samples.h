#pragma once

#include <torch/csrc/autograd/edge.h>

#include <vector>

#include "hooks/near_tls.h"
#include "hooks/node_pointer.h"
#include "model/backward_event.h"

namespace at {
class Tensor;
}

namespace ddpscope {

/// Graphs of this thread, of one step in 16: that of a loss, and that of an evaluation after it. A
/// weak reference to a node near the leaves tells whether anything that was computed from there is
/// still kept, be it the loss or not.
class GraphSamples {
 public:
  /// Those of the calling thread.
  static GraphSamples& here();

  /// A backward begins at these roots: adds a sample and tells the older ones where one is due.
  void see_backward(const torch::autograd::edge_list& roots, BackwardEvent& event);
  /// What a layer returned, whose `training` says in which mode it is.
  template <class Layer>
  static void see_layer(const Layer& layer, const at::Tensor& result) {
    if (wanted_ != Wanted::kNothing) here().add_layer(&layer, layer.is_training(), result);
  }

 private:
  enum class Wanted : std::uint8_t { kNothing, kLayer, kEvaluation };
  struct Sample {
    WeakNodePointer node;
    std::int64_t step = 0;
  };
  struct Samples {
    std::vector<Sample> all;
    std::int64_t died = 0;
    void add(const NodePointer& node, std::int64_t step);
    OldGraphs count();
  };
  void add_layer(const void* layer, bool training, const at::Tensor& result);

  /// What layers of the calling thread are asked for.
  DDPSCOPE_NEAR static inline constinit thread_local Wanted wanted_ = Wanted::kNothing;

  Samples trained_;
  Samples evaluated_;
  const void* layer_ = nullptr;   // the first that a training forward ran; an address, no more
  std::uint64_t begun_at_ = 0;    // the number of the next node when the last backward began
  std::int64_t sampled_ = -1000;  // the step
};

}  // namespace ddpscope
