#pragma once

#include <set>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Whether `id` is a source, or operators of this step made it of sources alone, beside constants.
/// False where more than 32 tensors would be asked. Both are asked with the leaf behind a view.
template <class IsSource, class IsConstant>
bool is_made_of(TensorId id, const RunState& state, IsSource&& is_source,
                IsConstant&& is_constant) {
  constexpr std::size_t kMostTensors = 32;
  std::vector<TensorId> open = {id};
  std::set<TensorId> seen = {id};
  bool any = false;
  while (!open.empty()) {
    const TensorId now = state.trace().leaf_behind(open.back());
    open.pop_back();
    if (is_source(now)) {
      any = true;
    } else if (const OpTrace::Record* const maker = state.trace().record_of(now)) {
      for (const TensorId input : maker->inputs) {
        if (seen.insert(input).second) open.push_back(input);
      }
    } else if (!is_constant(now)) {
      return false;
    }
    if (seen.size() > kMostTensors) return false;
  }
  return any;
}

}  // namespace ddpscope
