#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "model/finding.h"

namespace ddpscope {

enum class CheckLevel : std::uint8_t { kWatch, kValues, kStacks };

/// A row of checks.def.
struct CheckRow {
  std::string_view id;
  std::string_view name = {};
  Severity severity = Severity::kWarning;  ///< the highest normal one
  CheckLevel level = CheckLevel::kWatch;
  std::string_view needs = {};  ///< names of sources, joined by ", "; optional ones end in `?`
  std::string_view summary = {};
  std::unique_ptr<Check> (*factory)() = nullptr;  ///< none: a finding about the tool itself
};

std::span<const CheckRow> check_table();
/// The row of an id; null if there is none.
const CheckRow* find_check(std::string_view id);
/// What settings may name of checks: their ids, and each option that one has as `<id>.<option>`.
std::vector<std::string> check_setting_names();
std::string_view level_name(CheckLevel level);
/// Whether it judges all ranks together (needs `ranks`), so not in any one of them.
bool is_over_ranks(const CheckRow& row);
/// It judges one rank by itself, and all of them together as well.
bool is_also_over_ranks(const CheckRow& row);

}  // namespace ddpscope
