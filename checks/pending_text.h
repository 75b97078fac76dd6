#pragma once

#include <string_view>
#include <vector>

#include "model/collective_event.h"
#include "model/finding.h"

namespace ddpscope {

/// How a gradient was used while a collective on it was pending, in words.
struct PendingUseWords {
  std::string_view access;
  std::string_view done;
  std::string_view does;
  std::string_view by;  ///< where no operator did it
};
PendingUseWords words_for(GradientUse use);

std::vector<Fix> fixes_for(const PendingUseEvent& event);

}  // namespace ddpscope
