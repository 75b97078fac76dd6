#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"
#include "checks/trainable_flags.h"

namespace ddpscope {

/// They became trainable, each as the result of an operator that wrote into it.
inline bool are_results(const ChangedFlags& change, const TensorGroup& group) {
  return change.trainable && std::ranges::all_of(group.tensors, [](const TensorState* tensor) {
           return tensor->info.requires_grad && !tensor->info.is_leaf;
         });
}

/// What the finding says of those.
inline void tell_results(const ChangedFlags& change, const TensorGroup& group, Finding& finding) {
  const std::string& op = group.tensors.front()->written_by;
  finding.op = op;
  finding.what = fmt::format("{} became results with a graph in step {}{}",
                             counted(std::ssize(group.tensors), "parameter"), change.step,
                             op.empty() ? "" : fmt::format("; {} wrote them last", op));
  finding.why =
      "an in-place operator wrote into frozen parameters with grad mode on, from tensors that "
      "require a gradient: they are no leaves any more, and their graph grows by each write";
  finding.fixes = {{"run what writes them under torch::NoGradGuard", Applicability::kLikely}};
}

}  // namespace ddpscope
