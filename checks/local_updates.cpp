#include "checks/local_updates.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/rank_words.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kLongestPeriod = 1000;
constexpr std::int64_t kWaited = 32;  // steps

bool averaged_before(const Cohort& cohort, std::int64_t step) {
  return std::ranges::any_of(cohort.reductions, [step](const ReductionStep& one) {
    return one.step < step && one.differing == 0;
  });
}

std::int64_t last_step_of(const Cohort& cohort) {
  std::int64_t last = 0;
  for (const RankCounts& rank : cohort.counts) last = std::max(last, rank.step);
  return last;
}

/// At most half of the steps exchange anything, and no gradients: weights that are drawn to their
/// mean now and then. An average that leaves some of them out makes the others equal.
LocalUpdates drawn_together(const Cohort& cohort, const ReductionStep& first) {
  LocalUpdates drawn;
  for (const ReductionStep& step : cohort.reductions) {
    const bool is_of_it = step.first_differing.model == first.first_differing.model;
    if (step.differing == 0 || step.backwards == 0 || !is_of_it) continue;
    const bool exchange_some = !step.silent.empty() && !step.is_alone();
    if (exchange_some) return {};  // after other numbers of steps
    ++drawn.steps;
    drawn.exchanging += !step.is_alone();
  }
  const bool is_now_and_then = drawn.exchanging > 0 && 2 * drawn.exchanging <= drawn.steps;
  if (!cohort.averages && cohort.partly_equal_steps.empty() && is_now_and_then)
    drawn.kind = LocalUpdates::Kind::kFound;
  return drawn;
}

/// By the steps in which parameters were equal.
LocalUpdates equal_again(const std::vector<std::int64_t>& steps, std::int64_t after) {
  const auto again = std::ranges::upper_bound(steps, after);
  if (again == steps.end() || *again - after > kLongestPeriod) return {};
  const auto next = std::ranges::upper_bound(steps, *again);
  return {.kind = LocalUpdates::Kind::kFound,
          .equal_again = *again,
          .period = next == steps.end() ? 0 : *next - *again};
}

std::string local_words(const LocalUpdates& local) {
  if (local.equal_again == 0) {
    return fmt::format(
        "; in only {} of {} compared steps the ranks exchanged tensors, as where weights are "
        "drawn to their mean now and then",
        local.exchanging, local.steps);
  }
  const std::string again = fmt::format("; {} parameters were equal again when step {} began",
                                        local.of_some ? "some of the" : "the", local.equal_again);
  return local.period == 0 ? again : again + fmt::format(", and after {} more", local.period);
}

std::string part_words(const Cohort& cohort) {
  constexpr std::size_t kNamed = 4;
  std::string words;
  for (std::size_t i = 0; i < cohort.parts.size() && i < kNamed; ++i) {
    words += (words.empty() ? "" : ", ") + rank_words(cohort.parts[i]);
  }
  if (cohort.parts.size() > kNamed) words += " and others";
  return "; they differ between ranks that average over groups of their own (" + words + ")";
}
}  // namespace

LocalUpdates local_updates(const Cohort& cohort, const ReductionStep& first) {
  using enum LocalUpdates::Kind;
  if (first.differing == 0) return {};
  const LocalUpdates drawn = drawn_together(cohort, first);
  if (!first.is_alone()) return drawn.kind == kFound ? drawn : LocalUpdates{};
  const LocalUpdates wholly = equal_again(cohort.equal_steps, first.step);
  if (wholly.kind == kFound) return wholly;
  LocalUpdates partly = equal_again(cohort.partly_equal_steps, first.step);
  partly.of_some = true;
  if (partly.kind == kFound) return partly;
  if (drawn.kind == kFound) return drawn;
  const bool is_early = last_step_of(cohort) - first.step < kWaited;
  return {.kind = is_early && averaged_before(cohort, first.step) ? kMaybe : kNone};
}

LocalUpdates local_updates_before(const Cohort& cohort, std::int64_t step) {
  const auto first = std::ranges::find_if(
      cohort.reductions, [](const ReductionStep& one) { return one.differing > 0; });
  if (first == cohort.reductions.end() || first->step > step) return {};
  return local_updates(cohort, *first);
}

void tell_meant(const Cohort& cohort, const LocalUpdates& local, bool by_part, Finding& finding) {
  const bool is_local = local.kind == LocalUpdates::Kind::kFound;
  if (!is_local && !by_part) return;
  finding.severity = Severity::kNote;
  finding.why += (is_local ? local_words(local) : "") + (by_part ? part_words(cohort) : "");
  const Fix meant = {"none, where the ranks are meant to train by themselves so far",
                     Applicability::kNeedsDecision};
  for (Fix& fix : finding.fixes) fix.applicability = Applicability::kNeedsDecision;
  finding.fixes.insert(finding.fixes.begin(), meant);
}

}  // namespace ddpscope
