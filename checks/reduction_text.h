#pragma once

#include <string>
#include <vector>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// A run of steps, in the order in which they were compared, of which all show the same.
struct ReductionRun {
  const ReductionStep* first = nullptr;
  const ReductionStep* last = nullptr;
  std::int64_t steps = 0;
};

/// The first run of at least `length` steps of which `shows` holds; `first` is null if there is
/// none.
template <class Shows>
ReductionRun first_run_of(const std::vector<ReductionStep>& steps, std::int64_t length,
                          const Shows& shows) {
  ReductionRun run;
  for (const ReductionStep& step : steps) {
    if (!shows(step)) {
      if (run.steps >= length) return run;
      run = {};
      continue;
    }
    if (run.steps++ == 0) run.first = &step;
    run.last = &step;
  }
  return run.steps >= length ? run : ReductionRun{};
}

/// `2 collectives were issued in that step`
std::string calls_text(std::int64_t calls);

}  // namespace ddpscope
