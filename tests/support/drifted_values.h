#pragma once

#include "tests/support/compared_ranks.h"

namespace ddpscope::test {

/// Four ranks of which the compared values are these.
inline RanksComparedEvent with_values(const ValuesDiffer& values) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].values = {values};
  return run;
}

/// One parameter that rank 1 has otherwise since step 8.
inline ValuesDiffer drift_of_one() {
  return {.step = 8,
          .compared = 62,
          .equal_until = 4,
          .sides = {{"aa", {1}}, {"bb", {0, 2, 3}}},
          .tensors = {{.model = "Net", .path = "trunk.conv.weight", .requires_grad = true}},
          .differing = 1,
          .module_path = "trunk.conv"};
}

}  // namespace ddpscope::test
