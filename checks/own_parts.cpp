#include "checks/own_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/parameter_drift.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// A glob that covers them: the module above all, or the first of them.
std::string glob_of(const ValuesDiffer& values) {
  if (!values.module_path.empty()) return values.module_path + ".*";
  return values.tensors.front().path;
}
}  // namespace

bool may_be_own_parts(const ValuesDiffer& values) {
  return values.step == 0 && !values.of_buffers && values.beside_equal && !values.tensors.empty() &&
         !are_frozen(values);
}

bool are_routed_parts(const ValuesDiffer& values, const Cohort& cohort) {
  return may_be_own_parts(values) && !cohort.reductions.empty() &&
         std::ranges::all_of(cohort.reductions, &ReductionStep::routes_activations);
}

bool are_of_routed_parts(const ReductionStep& step, const Cohort& cohort) {
  const ValuesDiffer* own = own_parts_with(step.first_differing.path, cohort);
  return own != nullptr && are_routed_parts(*own, cohort) && step.differing <= own->differing;
}

void tell_routed_parts(Finding& finding) {
  finding.severity = Severity::kNote;
  finding.why += "; all-to-alls of each forward and backward send them what is theirs to compute";
  for (Fix& fix : finding.fixes) fix.applicability = kNeedsDecision;
  finding.fixes.insert(
      finding.fixes.begin(),
      {"none, where each rank has its own, as experts or rows of a table", kNeedsDecision});
}

const ValuesDiffer* own_parts_with(const std::string& path, const Cohort& cohort) {
  for (const ValuesDiffer& values : cohort.values) {
    if (!may_be_own_parts(values)) continue;
    if (std::ranges::count(values.tensors, path, &DifferingTensor::path) > 0) return &values;
  }
  return nullptr;
}

std::string why_own_parts() {
  return "others are equal on all ranks: each rank is to have these for itself, as an expert or a "
         "shard, or what made the others equal left them out";
}

Fix declare_own_parts(const ValuesDiffer& values) {
  const std::string glob = glob_of(values);
  const std::string_view all =
      values.module_path.empty() && values.differing > 1 ? " and so on" : "";
  return {fmt::format("if each rank is to have its own: DDPSCOPE=declare={}=sharded{}, or "
                      "Attachment::declare(\"{}\", kSharded)",
                      glob, all, glob),
          kNeedsDecision};
}

std::vector<Fix> fixes_for_own_parts(const ValuesDiffer& values) {
  return {{"if all ranks are to have the same: broadcast these from rank 0 before the first step",
           kLikely},
          declare_own_parts(values)};
}

}  // namespace ddpscope
