#include "checks/repetitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "checks/finding_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
std::string path_in(const std::string& module, const std::string& name) {
  return module.empty() || name.empty() ? module + name : module + "." + name;
}

std::string sentence(const RepetitionKind& kind, std::string_view listed,
                     std::string_view updated) {
  if (kind.where == "tree") return fmt::format("the tree lists {}", listed);
  if (kind.shares == "impl") {
    return fmt::format("the optimizer holds {}; {} per step", listed, updated);
  }
  return fmt::format("the optimizer holds the memory of {}", listed);
}

void explain(const RepetitionKind& kind, bool single, Finding& finding) {
  using enum Applicability;
  if (kind.over_groups) {
    const char* const it = single ? "it" : "them";
    finding.why = fmt::format(
        "several groups of the optimizer hold {}: each updates {} with its own options", it, it);
    finding.fixes = {{fmt::format("leave {} out of all groups but one", it), kSafe}};
    return;
  }
  finding.why =
      "parameters() does not remove repetitions: whatever walks the list counts and "
      "updates such a tensor once per entry";
  finding.fixes = {
      {"pass every tensor once: skip what the list already holds", kSafe},
      {"register the module once and keep the second use as a plain member", kNeedsDecision},
      {"shared by accident: construct one module for each name", kNeedsDecision}};
}
}  // namespace

Finding repeated_finding(const Repeated& repeated, const RepetitionKind& kind,
                         const RunState& state) {
  Finding finding;
  const auto model = state.models().find(repeated.place.model);
  if (model != state.models().end()) finding.model = model->second.label;
  finding.severity = kind.severity;
  finding.phase = kind.where == "tree" ? Phase::kInit : Phase::kOptimizer;
  finding.module_path = repeated.place.module_path;
  const bool single = repeated.names.size() == 1;
  if (single) finding.subject = repeated.place.name;
  std::vector<std::string> others;
  for (const std::string& path : repeated.paths) {
    const std::string own = path_in(repeated.place.module_path, "");
    const bool below = !own.empty() && path.starts_with(own + ".");
    if (!below && path != path_in(own, repeated.place.name)) others.push_back(path);
  }
  const std::string which =
      single ? "this tensor" : counted(static_cast<std::int64_t>(repeated.names.size()), "tensor");
  const std::string also = others.empty() ? "" : ", also as " + joined(others);
  const std::string often = repeated.times == 2 ? "twice" : fmt::format("{} times", repeated.times);
  finding.what = sentence(kind, which + " " + often + also,
                          (single ? "it is updated " : "they are updated ") + often);
  explain(kind, single, finding);
  finding.facts = {{fact::kPaths, as_fact(std::vector<std::string>(repeated.paths.begin(),
                                                                   repeated.paths.end()))},
                   {fact::kTimesListedCount, repeated.times},
                   {fact::kWhere, kind.where},
                   {fact::kShares, kind.shares}};
  return finding;
}

void Repetitions::add(const TensorState& tensor, std::int64_t times,
                      const std::vector<const TensorState*>& others) {
  Registration place{.name = tensor_path(tensor)};
  if (!tensor.registrations.empty()) place = tensor.registrations.back();
  Repeated& repeated = by_module_[{place.model, place.module_path}];
  repeated.place = place;
  repeated.names.push_back(place.name);
  repeated.times = std::max(repeated.times, times);
  for (const Registration& at : tensor.registrations) {
    repeated.paths.insert(path_in(at.module_path, at.name));
  }
  for (const TensorState* other : others) repeated.paths.insert(tensor_path(*other));
}

}  // namespace ddpscope
