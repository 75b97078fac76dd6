#pragma once

#include <string_view>

namespace ddpscope {

/// What helps where this operator returned NaN or Inf for inputs that were finite.
std::string_view fix_of_nonfinite(std::string_view op);

}  // namespace ddpscope
