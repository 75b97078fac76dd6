#pragma once

#include "tests/support/events.h"

namespace ddpscope::test {

inline ReducerEvent reducer(ReducerStage stage, std::uint64_t number = 1) {
  return {.stage = stage, .reducer = number, .ranks = 2};
}

/// A backward has ended and the Reducer of `parameters` waits for `not_ready`.
inline ReducerEvent unfinished(std::vector<TensorId> parameters, std::vector<TensorId> not_ready) {
  ReducerEvent event = reducer(ReducerStage::kUnfinished);
  event.parameters = std::move(parameters);
  event.not_ready = std::move(not_ready);
  return event;
}

/// The same of a static graph that was not told to average.
inline ReducerEvent only_counted(std::vector<TensorId> parameters) {
  ReducerEvent event = unfinished(std::move(parameters), {});
  event.only_counts = true;
  return event;
}

}  // namespace ddpscope::test
