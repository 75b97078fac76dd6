#pragma once

#include <array>
#include <string_view>

namespace ddpscope {

/// Why a parameter got no gradient, in words of the catalogue. A ring tells them by their place.
inline constexpr std::array<std::string_view, 6> kMissingCauses = {
    "function_returned_nothing", "not_used",      "grad_mode_off", "cut",
    "output_not_in_loss",        "result_dropped"};

}  // namespace ddpscope
