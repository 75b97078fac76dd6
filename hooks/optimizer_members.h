#pragma once

#include <string>
#include <vector>

#include "hooks/optimizer_table.h"
#include "model/optimizer_event.h"

namespace ddpscope {

class Capture;

struct Members {
  std::vector<std::vector<at::Tensor>> groups;
  std::vector<GroupOptions> options;
};
Members members_of(const torch::optim::Optimizer& optimizer);

/// The name of its class, once its constructor has returned.
std::string name_of(const torch::optim::Optimizer& built);

void tell_members(Capture& capture, Members&& told, const KnownOptimizer& known, std::string type);
/// The members of one whose constructor has returned.
void tell_now(Capture& capture, const torch::optim::Optimizer& optimizer, KnownOptimizer& known);
/// The same where they, or options but the rates, are not what was told last. Whether all gradients
/// of its members are as they were at the last step of these, and there are some.
bool tell_if_changed(Capture& capture, const torch::optim::Optimizer& optimizer,
                     KnownOptimizer& known);
/// In a step, hooks at rest or not, where ranks are compared.
void tell_rates(Capture& capture, const ParamGroups& groups, KnownOptimizer& known);

}  // namespace ddpscope
