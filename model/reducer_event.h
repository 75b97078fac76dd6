#pragma once

#include <cstdint>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// What became of the gradients that a `c10d::Reducer` is to average in one pass: from its
/// `prepare_for_backward` to the next.
enum class ReducerStage : std::uint8_t {
  kBuilt,
  kUnfinished,  ///< a backward has ended and they are not averaged; another one may complete them
  kFinished,    ///< after `kUnfinished`: they are averaged now, or the program gave the pass up
  kAbandoned,   ///< after `kUnfinished`: the next pass begins
};

struct ReducerEvent {
  Stamp at;
  ReducerStage stage = ReducerStage::kBuilt;
  std::uint64_t reducer = 0;  ///< 1 for the first of this process
  std::int64_t ranks = 1;
  bool bucket_views = false;         ///< gradients are views of its buckets
  bool only_counts = false;          ///< of a static graph: it averages nothing until it is told to
  std::vector<TensorId> parameters;  ///< with `kUnfinished`, those that still exist
  std::vector<TensorId> not_ready;   ///< those of them that the Reducer waits for
};

}  // namespace ddpscope
