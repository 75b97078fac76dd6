#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/finding.h"

namespace ddpscope {

inline bool has_word(const Finding& finding, std::string_view key, std::string_view word) {
  const FactValue* value = find_fact(finding, key);
  return value != nullptr && *value == FactValue(std::string(word));
}

/// Whether the fact is a list with that item.
inline bool lists(const Finding& finding, std::string_view key, const FactScalar& item) {
  const FactValue* value = find_fact(finding, key);
  const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<FactScalar>>(value);
  return list != nullptr && std::ranges::find(*list, item) != list->end();
}

}  // namespace ddpscope
