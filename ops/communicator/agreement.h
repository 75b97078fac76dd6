#pragma once

#include <ddpscope/ops/communicator.h>

#include <optional>
#include <string>
#include <vector>

namespace ddpscope::communicator {

/// Where the lists of ranks part.
struct Disagreement {
  std::int64_t index = 0;          ///< of the first line that is not the same everywhere, from 0
  std::vector<std::string> lines;  ///< of each rank there, cut; "" where its list is shorter
};

/// Whether every rank of the group gives the same lines: nothing if so, and all ranks are told the
/// same. A collective of 8 numbers; where lists differ three more. Their records are on `device`,
/// which the group has to reach.
/// @throws c10::Error from the communicator.
std::optional<Disagreement> compare_lines(Communicator& group,
                                          const std::vector<std::string>& lines,
                                          const c10::Device& device);

}  // namespace ddpscope::communicator
