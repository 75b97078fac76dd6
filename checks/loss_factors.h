#pragma once

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// By the gradients that ranks average, what the factors of their losses are that differ.
enum class LossFactors : std::uint8_t {
  kScales,        ///< each rank divides its own out again, or it is not known
  kWeights,       ///< nobody does
  kWeightedMean,  ///< their sum is divided out
};
LossFactors loss_factors(const DigestsDiffer& differ, const Cohort& cohort);

/// Of weights: the words of a finding that has their field, ranks and steps.
void describe_weights(const DigestsDiffer& differ, Finding& finding);

}  // namespace ddpscope
