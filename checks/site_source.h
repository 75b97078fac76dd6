#pragma once

#include <string>
#include <string_view>

#include "model/autograd_event.h"
#include "model/finding.h"

namespace ddpscope {

/// Turns recorded stacks into frames; the session has one, a test another.
class SiteSource {
 public:
  virtual ~SiteSource() = default;
  /// The site of a stack, without its role. Its state says when frames are missing.
  virtual Site site(StackId stack) = 0;
  /// The operator that a function of a frame calls; "" if it calls none.
  virtual std::string operator_called_by(std::string_view /*function*/) { return ""; }
};

}  // namespace ddpscope
