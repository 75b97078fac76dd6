#pragma once

#include <cstdint>
#include <map>

#include "exchange/rank_ring.h"

namespace ddpscope {

/// Elements of the batches of one rank, each from its step on.
class BatchSizes {
 public:
  explicit BatchSizes(const RingReader& ring);
  /// 0 where it is not known.
  double at(std::int64_t step) const;

 private:
  std::map<std::int64_t, double> sizes_;
};

}  // namespace ddpscope
