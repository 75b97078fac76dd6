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

/// It is told where it lasts. The members are counted once, and do not change by themselves.
inline bool is_lasting(const DigestsDiffer& differ) {
  return differ.field == DigestField::kMembers || differ.field == DigestField::kGroups ||
         differ.consecutive >= 2;
}

/// What rank-optimizer-differs says of one field.
Finding describe_difference(const DigestsDiffer& differ, const FieldWords& words,
                            const Cohort& cohort);

}  // namespace ddpscope
