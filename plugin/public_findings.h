#pragma once

#include <ddpscope/ddpscope.h>

#include <vector>

namespace ddpscope {

/// The findings of the running session as public records; drains first.
std::vector<api0::Finding> public_findings();

}  // namespace ddpscope
