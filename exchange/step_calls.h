#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "exchange/rank_ring.h"

namespace ddpscope {

/// The collectives of one rank, by step, but those of gradients themselves: what may be copies.
class StepCalls {
 public:
  explicit StepCalls(const RingReader& ring);
  /// Whether calls of that step had the sizes of these gradients, one by one, or of `all` gradients
  /// together. True where calls of the step are no longer in the ring.
  bool may_hold(std::int64_t step, const std::vector<std::uint64_t>& gradients,
                std::uint64_t all) const;

 private:
  std::int64_t known_from_ = 0;
  std::map<std::int64_t, std::vector<std::uint64_t>> elements_;
};

}  // namespace ddpscope
