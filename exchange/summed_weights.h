#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "exchange/digest_walk.h"
#include "exchange/reduction_record.h"

namespace ddpscope {

/// The number of a model, and the place among its parameters.
using SketchPlace = std::pair<std::uint32_t, std::size_t>;
using SketchesAt = std::map<SketchPlace, GradientSketch>;

/// Of the trainable parameters of a rank when `step` began.
SketchesAt sketches_at(const RingReader& ring, std::int64_t step);

/// The steps of `cohort.equal_steps` before which the ranks made the sum of their weights of them,
/// and not the mean. Empty unless all that can be told are of that kind.
std::vector<std::int64_t> steps_of_sums(const RingList& rings, const Cohort& cohort);

}  // namespace ddpscope
