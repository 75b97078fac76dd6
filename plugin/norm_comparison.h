#pragma once

#include <ddpscope/ops/communicator.h>

#include <string>
#include <vector>

namespace ddpscope {

/// Whether all ranks of the group have the same layers, told in a log line where not. A collective,
/// noted in the call log; where lists differ also under the line that does, for a merge to tell.
/// What is sent is on `device`.
/// @throws c10::Error from the communicator, after the group's own timeout.
bool agree_on_layers(Communicator& group, const std::vector<std::string>& lines,
                     const c10::Device& device);

}  // namespace ddpscope
