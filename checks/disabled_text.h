#pragma once

#include <string>
#include <vector>

#include "model/error_event.h"
#include "model/finding.h"

namespace ddpscope {

/// What tool-check-disabled tells; docs/checks/tool-check-disabled.md
Finding about_thrown(const std::string& check, const std::string& why);

/// A check that cannot run, and why.
struct BlockedCheck {
  std::string id;
  std::string why;
};
Finding about_blocked(const std::vector<BlockedCheck>& blocked, std::size_t checks);

Finding about_rest(const ExitEvent::Rested& rested);

}  // namespace ddpscope
