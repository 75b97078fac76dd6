#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "exchange/rank_ring.h"
#include "exchange/step_calls.h"
#include "exchange/tensor_list.h"
#include "exchange/unnamed_calls.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

struct ReducedPlace {
  std::uint32_t model = 0;
  std::uint32_t parameter = 0;  ///< place among the parameters of the model
  friend auto operator<=>(const ReducedPlace&, const ReducedPlace&) = default;
};

/// What parameters are called at a step, and how large they are. Of the first of these rings, which
/// outlive it.
class ReducedNames {
 public:
  explicit ReducedNames(const RingList& rings)
      : blobs_(rings.front()->blobs()),
        calls_(*rings.front(), nullptr, rings.size()),
        among_(unnamed_calls_among(rings)) {}

  ReducedParameter at(const ReducedPlace& place, std::int64_t step);
  /// Whether the calls of the step may have been of copies of these gradients, of one model.
  bool may_be_copied(const std::vector<ReducedPlace>& places, std::int64_t step);
  /// Whether they were of a few numbers, as losses and counts are, beside the parameters of
  /// `model`.
  bool are_of_few_numbers(std::uint32_t model, std::int64_t step);
  /// Whether some call of the step was given a gradient itself.
  bool may_be_of_gradients(std::int64_t step) const { return calls_.may_be_of_gradients(step); }
  /// How the calls of the step went, by the size of the parameters of `model`.
  void tell_calls(std::uint32_t model, ReductionStep& step);

 private:
  const TensorList& list_at(std::uint32_t model, std::int64_t step);

  std::vector<Blob> blobs_;
  StepCalls calls_;
  UnnamedCalls among_;
  std::map<const Blob*, TensorList> lists_;
};

}  // namespace ddpscope
