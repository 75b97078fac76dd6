#include "exchange/steps_apart.h"

#include <algorithm>
#include <optional>

#include "exchange/own_steps.h"

namespace ddpscope {
namespace {
bool is_of_members(DigestField field) {
  return field == DigestField::kMembers || field == DigestField::kGroups;
}

/// The first step by which the optimizers of ranks differ since some of them have a model alone.
std::optional<std::int64_t> first_apart(const Cohort& cohort) {
  const auto lone = std::ranges::find_if(cohort.models, &ModelsDiffer::is_of_some);
  if (lone == cohort.models.end()) return std::nullopt;
  std::optional<std::int64_t> first;
  for (const DigestsDiffer& differ : cohort.digests) {
    if (!is_of_members(differ.field) || differ.first_step < lone->step) continue;
    first = std::min(first.value_or(differ.first_step), differ.first_step);
  }
  return first;
}
}  // namespace

std::string forget_steps_apart(const RingList& rings, Cohort& cohort) {
  if (cohort.digests.empty()) return "";
  const auto own = cohort.averages ? first_own_steps(rings) : std::nullopt;
  auto first = first_apart(cohort);
  if (own) first = std::min(first.value_or(own->step), own->step);
  if (!first) return "";
  const auto is_apart = [first](const auto& found) { return found.step >= *first; };
  std::erase_if(cohort.digests, is_apart);
  std::erase_if(cohort.gradients, is_apart);
  std::erase_if(cohort.values, is_apart);
  std::erase_if(cohort.reductions, is_apart);
  std::erase_if(cohort.patterns, is_apart);
  std::erase_if(cohort.epochs, is_apart);
  std::erase_if(cohort.stragglers, is_apart);
  std::erase_if(cohort.loss_weights, is_apart);
  if (!own || own->step > *first) return "";
  return "rank " + std::to_string(own->rank) + " makes steps alone from step " +
         std::to_string(own->step) + " on: from there the ranks' steps are not compared";
}

}  // namespace ddpscope
