#pragma once

#include <ddpscope/ops/clip_grad.h>

#include <string>
#include <vector>

#include "ops/clip/measure.h"

namespace ddpscope::clip {

/// What is decided from a measure, as numbers of the host.
struct Verdict {
  double inverse_scale = 1;
  double total = 0;
  double coefficient = 1;
  bool has_bad = false;     // an element as given is not finite, of all shards
  bool zeroes_bad = false;  // the bad gradients become 0
  bool is_limited = false;  // the coefficient follows from the limit

  /// What every gradient is multiplied by.
  double factor() const { return coefficient * inverse_scale; }
};

ClipResult make_result(const Measure& measure, const Verdict& verdict, const ClipOptions& options);

at::Tensor nan_counts_of(const Measure& measure);
at::Tensor inf_counts_of(const Measure& measure);

/// Which gradient is not finite, as the end of a message.
struct Culprit {
  double total = 0;
  std::int64_t row = -1;  // -2: of another rank
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
};
std::string told(const Culprit& culprit);
Culprit culprit_of(const Measure& measure, const Verdict& verdict);

}  // namespace ddpscope::clip
