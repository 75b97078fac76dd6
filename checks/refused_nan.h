#pragma once

#include <string>

#include "model/fact_keys.h"
#include "model/finding.h"

namespace ddpscope {

/// The operator refused NaN or Inf, which an optimizer had stepped with before.
inline bool is_why_it_refused_nan(const Finding& cause, const Finding& effect) {
  const FactValue* thrown = find_fact(effect, fact::kException);
  const auto* text = thrown == nullptr ? nullptr : std::get_if<std::string>(thrown);
  if (text == nullptr || text->find("`inf`, `nan`") == std::string::npos) return false;
  const bool spoils =
      cause.id.starts_with("numeric-nonfinite-") || cause.id == "clip-nonfinite-norm";
  return spoils && cause.severity == Severity::kError && cause.rank == effect.rank &&
         cause.step <= effect.step && effect.step <= cause.step + 1;
}

}  // namespace ddpscope
