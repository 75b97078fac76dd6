#pragma once

#include <string_view>

#include "checks/fact_words.h"
#include "model/fact_keys.h"

namespace ddpscope {

/// The operator refused NaN or Inf, which an optimizer had stepped with before.
inline bool is_why_it_refused_nan(const Finding& cause, const Finding& effect) {
  const std::string_view thrown = text_in(effect, fact::kException);
  const auto names = [thrown](std::string_view words) {
    return thrown.find(words) != std::string_view::npos;
  };
  if (!names("`inf`, `nan`") && !names("contained non-finite values")) return false;
  const bool spoils =
      cause.id.starts_with("numeric-nonfinite-") || cause.id == "clip-nonfinite-norm";
  return spoils && cause.severity == Severity::kError && cause.rank == effect.rank &&
         cause.step <= effect.step && effect.step <= cause.step + 1;
}

}  // namespace ddpscope
