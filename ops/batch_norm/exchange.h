#pragma once

#include <cstdint>
#include <vector>

#include "ops/batch_norm/call.h"

/// What ranks tell each other. Records are Double whatever the input is, so that every rank, also
/// an empty one, sends the same bytes.
namespace ddpscope::batch_norm {

/// Of all ranks, or of one: values per channel, their mean, and the sum of (x - mean)^2.
struct Moments {
  double count = 0;
  std::vector<double> mean;
  std::vector<double> m2;
};

/// The moments over all ranks of the call's group.
/// @throws c10::Error from the communicator, or if a rank is at another layer, call or phase, or at
/// a layer with other channels or another mode.
Moments exchange_moments(const Moments& own, const Call& call);

/// The sums over all ranks; `own` is Double and contiguous. @throws as exchange_moments
at::Tensor exchange_sums(const at::Tensor& own, const Call& call, Phase phase);

/// Of a device, whose kernels wrote the id and compare it: the sum over ranks, or a row per rank.
/// A call without a group has its own record. @throws c10::Error from the communicator.
at::Tensor exchange_record(at::Tensor record, const Call& call, Phase phase);

/// A number that differs, but for 1 in 65536, where layer, call, phase, channels or mode of
/// exchange differ. Small enough for sums of its square over `size` ranks to be exact.
double id_of(const Call& call, Phase phase, int size);

}  // namespace ddpscope::batch_norm
