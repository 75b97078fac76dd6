#pragma once

#include <string_view>

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

struct FieldWords {
  DigestField field;
  std::string_view key;
  std::string_view words;
};

/// What rank-optimizer-differs says of one field.
Finding describe_difference(const DigestsDiffer& differ, const FieldWords& words,
                            const Cohort& cohort);

}  // namespace ddpscope
