#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// What a rank leaves of the first gradient that was not finite when it arrived, and that its
/// optimizer stepped with.
struct ToldNonfinite {
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  std::string model;
  std::string path;  ///< of the parameter
  std::string what;  ///< the sentence of the finding
};

std::string encode(const ToldNonfinite& told);
std::optional<ToldNonfinite> decode_nonfinite(std::string_view bytes);

/// Fills in on which ranks gradients were not finite first.
void compare_nonfinite(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
