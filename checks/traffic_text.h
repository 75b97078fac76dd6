#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checks/communication.h"
#include "model/finding.h"

namespace ddpscope {

struct SmallCollectives {
  UsualTraffic usual;
  std::vector<std::string> causes = {};  ///< tiny, every_micro_batch, constant_buffers, no_overlap
  std::int64_t constant_buffers = 0;
  bool is_costly = false;  ///< waits that overlap could hide
};

/// The finding of perf-small-collectives.
Finding small_collectives(const SmallCollectives& found, const RunState& state);

}  // namespace ddpscope
