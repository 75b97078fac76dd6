#include "checks/pending_text.h"

#include <fmt/format.h>

namespace ddpscope {

PendingUseWords words_for(GradientUse use) {
  switch (use) {
    case GradientUse::kRead:
      return {"read", "read", "reads", ""};
    case GradientUse::kWrite:
      return {"write", "written", "writes", ""};
    case GradientUse::kAdd:
      return {"write", "added to", "adds to", "the next backward()"};
    case GradientUse::kStep:
      return {"step", "", "reads", "step()"};
  }
  return {};
}

std::vector<Fix> fixes_for(const PendingUseEvent& event) {
  using enum Applicability;
  const std::string_view by = words_for(event.use).by;
  std::vector<Fix> fixes = {
      {fmt::format("`work->wait()` before {}", by.empty() ? fmt::format("`{}`", event.op) : by),
       kSafe}};
  if (event.use == GradientUse::kWrite) {
    fixes.push_back(
        {"use the average as reduce operation, so that nothing is left to divide", kLikely});
  }
  if (event.use == GradientUse::kAdd) {
    fixes.push_back(
        {"where that backward is of another model: autograd::grad() of the parameters "
         "it trains, in place of backward()",
         kLikely});
  }
  return fixes;
}

}  // namespace ddpscope
