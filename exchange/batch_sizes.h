#pragma once

#include <cstdint>
#include <map>

#include "exchange/rank_ring.h"

namespace ddpscope {

struct BatchSize {
  double rows = 0;  ///< 0 where it is not known, as the elements
  double elements = 0;
};

/// The batches of one rank, each from its step on.
class BatchSizes {
 public:
  explicit BatchSizes(const RingReader& ring);
  BatchSize at(std::int64_t step) const;

 private:
  std::map<std::int64_t, BatchSize> sizes_;
};

}  // namespace ddpscope
