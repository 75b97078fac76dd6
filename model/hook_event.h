#pragma once

#include <string>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// An observation point that someone else occupies or that this LibTorch does not offer. Sent once
/// for each point, when that is noticed.
struct HookRefusedEvent {
  Stamp at;
  std::vector<std::string> sources = {};  ///< that are blind: forward, op, graph, gradient, ...
  std::string point;   ///< in the plural: `post-accumulate hooks`, `interposed functions`
  std::string reason;  ///< follows the point: `belong to the program`, `are linked statically`
  std::string fallback = {};        ///< what is observed instead, where no source is blind
  std::string fix = {};             ///< empty: what helps with most
  std::int64_t occupied_count = 0;  ///< parameters, functions or threads concerned
  std::string built_version = {};
  std::string running_version = {};
};

}  // namespace ddpscope
