#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/finding.h"

namespace ddpscope {

/// The text that a fact is; empty where it is none.
inline std::string_view text_in(const Finding& finding, std::string_view key) {
  const FactValue* value = find_fact(finding, key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::string_view() : *text;
}

inline bool has_word(const Finding& finding, std::string_view key, std::string_view word) {
  return !word.empty() && text_in(finding, key) == word;
}

/// Whether the fact is a list with that item.
inline bool lists(const Finding& finding, std::string_view key, const FactScalar& item) {
  const FactValue* value = find_fact(finding, key);
  const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<FactScalar>>(value);
  return list != nullptr && std::ranges::find(*list, item) != list->end();
}

}  // namespace ddpscope
