#include "exchange/step_calls.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ddpscope {

StepCalls::StepCalls(const RingReader& ring)
    : known_from_(std::numeric_limits<std::int64_t>::max()) {
  std::map<NameId, bool> of_gradient;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    if (!call) continue;
    // Of the step of the oldest call, others may be overwritten.
    const std::int64_t known = ring.first_call() == 0 ? 0 : std::int64_t{call->step} + 1;
    known_from_ = std::min(known_from_, known);
    const auto [owner, is_new] = of_gradient.try_emplace(call->owner);
    if (is_new) owner->second = ring.name(call->owner).ends_with(".grad");
    if (!owner->second) elements_[call->step].push_back(call->elements);
  }
}

bool StepCalls::may_hold(std::int64_t step, const std::vector<std::uint64_t>& gradients,
                         std::uint64_t all) const {
  if (step < known_from_) return true;
  const auto found = elements_.find(step);
  if (found == elements_.end()) return false;
  const std::vector<std::uint64_t>& calls = found->second;
  const auto has = [&calls](std::uint64_t size) { return std::ranges::count(calls, size) > 0; };
  return std::ranges::all_of(gradients, has) || has(all) ||
         std::accumulate(calls.begin(), calls.end(), std::uint64_t{0}) == all;
}

}  // namespace ddpscope
