#include "checks/replaced_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "checks/finding_text.h"
#include "checks/held_copy.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

struct Words {
  std::string what;  ///< `{}`: count and elements; the path of what is used
  std::string why;   ///< `{}`: the holder
  std::vector<Fix> fixes = {};
};

const Words& words_of(const std::string& cause) {
  // Never destroyed: the last events are judged while the process exits.
  static const auto* const known = new std::map<std::string, Words>{
      {"re_registered",
       {"{}: the model registers new tensors, the optimizer steps the old ones",
        "{} was built before the registration changed and still holds what was replaced",
        {{"build the optimizer and averaging hooks again after replacing layers", kLikely},
         {"optimizer.add_param_group(...) with the new parameters", kLikely}}}},
      {"member_reassigned",
       {"{}: forward uses unregistered tensors of the same shape instead",
        "assigning to a member rebinds the member, the registry keeps the old tensor",
        {{"values only: torch::NoGradGuard guard; member.copy_(values)", kLikely},
         {"another tensor: register_parameter before the optimizer is built", kLikely},
         {"another layer: layer = replace_module(name, new_layer), and then build the optimizer",
          kLikely}}}},
      {"tied_by_assignment",
       {"{}: forward uses {} of the same shape instead",
        "assigning to a member rebinds the member, the registry keeps the old tensor",
        {{"call the functional form with the other tensor, as "
          "torch::nn::functional::linear(x, embed->weight)",
          kLikely},
         {"values only: torch::NoGradGuard guard; member.copy_(values)", kLikely}}}},
      {"buffer_rebound",
       {"{}: not written for 16 steps, forward reads tensors computed from them instead",
        "assigning to a member rebinds the member, the registry keeps the old buffer",
        {{"write in place: running.mul_(decay).add_(value)", kLikely}}}}};
  return known->at(cause);
}

std::string used_path(const TensorState* other) {
  return other == nullptr || other->registrations.empty() ? "" : tensor_path(*other);
}

using Others = std::map<const TensorState*, const TensorState*>;

/// The optimizer was built of the members and not of parameters().
bool are_stepped(const std::vector<const TensorState*>& replaced, const Others& others) {
  return std::ranges::all_of(replaced, [&others](const TensorState* tensor) {
    const TensorState* other = others.at(tensor);
    return other != nullptr && !other->owners.empty();
  });
}

Finding describe(const TensorGroup& group, const std::string& cause, const std::string& holder,
                 const Others& others) {
  const Words& words = words_of(cause);
  Finding finding = about(group);
  const bool is_buffer = group.tensors.front()->is_buffer;
  finding.severity = is_buffer ? Severity::kWarning : Severity::kError;
  finding.phase = cause == "re_registered" ? Phase::kOptimizer : Phase::kForward;
  std::vector<std::string> used;
  for (const TensorState* tensor : group.tensors) {
    const std::string path = used_path(others.at(tensor));
    if (!path.empty() && std::ranges::find(used, path) == used.end()) used.push_back(path);
  }
  const std::string tensors = fmt::format(
      "{} ({})",
      counted(static_cast<std::int64_t>(group.tensors.size()), is_buffer ? "buffer" : "parameter"),
      counted(elements_of(group.tensors), "element"));
  finding.what = fmt::format(fmt::runtime(words.what), tensors, joined(used)) + " (" + cause + ")";
  finding.why = fmt::format(fmt::runtime(words.why), holder) + "; largest " +
                joined(largest_shapes(group.tensors));
  finding.fixes = words.fixes;
  if (is_buffer) {
    finding.why += "; it alone is saved and moved with the model";
    finding.fixes.resize(1);
  }
  const TensorState& first = *group.tensors.front();
  const TensorState* other = others.at(&first);
  finding.facts.push_back({fact::kCause, cause});
  finding.facts.push_back({fact::kPath, tensor_path(first)});
  finding.facts.push_back({fact::kShape, shape_text(first.info.shape)});
  finding.facts.push_back({fact::kUsedPath, used_path(other)});
  if (other != nullptr && cause == "re_registered") {
    finding.facts.push_back({fact::kDeviceBefore, other->info.device});
    finding.facts.push_back({fact::kDeviceNow, first.info.device});
  }
  if (!holder.empty()) finding.facts.push_back({fact::kHolders, as_fact({holder})});
  return finding;
}
}  // namespace

void say_replaced(const std::string& cause, const std::string& holder,
                  const std::vector<Replacement>& replaced, const RunState& state,
                  Findings& findings) {
  Others others;
  std::vector<const TensorState*> tensors;
  for (const Replacement& replacement : replaced) {
    if (others.emplace(replacement.tensor, replacement.other).second) {
      tensors.push_back(replacement.tensor);
    }
  }
  for (const TensorGroup& group : collapse(state, tensors)) {
    findings.push_back(describe(group, cause, holder, others));
    if (cause != "member_reassigned" || !are_whole_model(group.tensors, state)) continue;
    if (are_stepped(group.tensors, others)) {
      findings.back().why += "; an optimizer steps what forward uses, but save() and to() miss it";
      continue;
    }
    findings.back().why =
        "these are all that the model trains: forward runs another model of its class, as clone() "
        "makes one, and the optimizer holds this one";
    findings.back().fixes = fixes_of_copy();
  }
}

}  // namespace ddpscope
