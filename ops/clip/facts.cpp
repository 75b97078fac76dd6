#include "ops/clip/facts.h"

#include "ops/clip/result.h"
#include "ops/observer.h"

namespace ddpscope::clip {

void tell_observer(const Table& table, const Measure& measure, ClipFacts facts) {
  OpObserver* const observer = op_observer();
  if (observer == nullptr) return;
  const Culprit culprit = culprit_of(measure, {.total = facts.total_norm});
  const std::vector<const void*> starts = table.starts();
  facts.gradients = starts;
  facts.tensors = static_cast<std::int64_t>(starts.size());
  facts.first_bad = culprit.row;
  facts.nan_count = culprit.nan_count;
  facts.inf_count = culprit.inf_count;
  observer->clipped(facts);
}

}  // namespace ddpscope::clip
