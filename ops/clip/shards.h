#pragma once

#include <ddpscope/ops/clip_grad.h>

/// The norm of gradients of which each rank of a group lists a part. A rank whose gradients count
/// for nothing, as it has none, is `present` all the same in the exchange.
namespace ddpscope::clip {

/// Of what one rank lists, or of all of them.
struct ShardNorm {
  double norm = 0;
  bool is_present = false;  ///< gradients count for it
  bool is_bad = false;      ///< one holds a NaN or an Inf
};
/// Of order p, combined in the order of the ranks.
ShardNorm over_shards(Communicator& group, double p, const ShardNorm& own);

/// The same as tensors of any device: Double, [].
struct ShardTensors {
  at::Tensor norm;
  at::Tensor is_bad;  ///< 0 or 1
};
ShardTensors over_shards(Communicator& group, double p, const ShardTensors& own, bool is_present);

}  // namespace ddpscope::clip
