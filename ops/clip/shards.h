#pragma once

#include <ddpscope/ops/clip_grad.h>

/// The norm of gradients of which each rank of a group lists a part. A rank whose gradients count
/// for nothing, as it has none, takes part in the exchange all the same.
namespace ddpscope::clip {

/// One exchange of a group: what its ranks must agree in.
struct ShardCall {
  Communicator* group = nullptr;
  std::int64_t number = 0;     ///< of calls over this group, also of those that threw before
  std::int64_t arguments = 0;  ///< a hash
  double p = 2;
};
/// The number of the call that begins; null without `shards`.
ShardCall begin_shards(double max_norm, const ClipOptions& options);

/// Of what one rank lists, or of all of them.
struct ShardNorm {
  double norm = 0;
  bool is_present = false;  ///< gradients count for it
  bool is_bad = false;      ///< one holds a NaN or an Inf
};
/// Combined in the order of the ranks.
/// @throws c10::Error on every rank if they do not agree.
ShardNorm over_shards(const ShardCall& call, const ShardNorm& own);

/// The same as tensors of any device: Double, []. NaN and bad if the ranks do not agree.
struct ShardTensors {
  at::Tensor norm;
  at::Tensor is_bad;  ///< 0 or 1
};
ShardTensors over_shards(const ShardCall& call, const ShardTensors& own, bool is_present);

}  // namespace ddpscope::clip
