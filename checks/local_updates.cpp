#include "checks/local_updates.h"

#include <fmt/format.h>

#include <algorithm>

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
}  // namespace

LocalUpdates local_updates(const Cohort& cohort, const ReductionStep& first) {
  using enum LocalUpdates::Kind;
  if (!first.is_alone() || first.differing == 0) return {};
  const auto& equal = cohort.equal_steps;
  const auto again = std::ranges::upper_bound(equal, first.step);
  if (again != equal.end() && *again - first.step <= kLongestPeriod) {
    const auto next = std::ranges::upper_bound(equal, *again);
    return {
        .kind = kFound, .equal_again = *again, .period = next == equal.end() ? 0 : *next - *again};
  }
  const bool is_early = last_step_of(cohort) - first.step < kWaited;
  return {.kind = is_early && averaged_before(cohort, first.step) ? kMaybe : kNone};
}

LocalUpdates local_updates_before(const Cohort& cohort, std::int64_t step) {
  const auto first = std::ranges::find_if(
      cohort.reductions, [](const ReductionStep& one) { return one.differing > 0; });
  if (first == cohort.reductions.end() || first->step > step) return {};
  return local_updates(cohort, *first);
}

std::string local_words(const LocalUpdates& local) {
  if (local.kind != LocalUpdates::Kind::kFound) return "";
  const std::string again =
      fmt::format("; the parameters were equal again when step {} began", local.equal_again);
  return local.period == 0 ? again : again + fmt::format(", and after {} more", local.period);
}

}  // namespace ddpscope
