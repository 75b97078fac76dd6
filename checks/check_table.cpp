#include "checks/check_table.h"

#include <algorithm>
#include <array>

namespace ddpscope {

#define DDPSCOPE_CHECK(id, name, ...) std::unique_ptr<Check> make_##name();
#define DDPSCOPE_TOOL_CHECK(id, name, ...)
#include "checks/checks.def"
#undef DDPSCOPE_CHECK
#undef DDPSCOPE_TOOL_CHECK

namespace {
using enum Severity;
using enum CheckLevel;

constexpr auto kTable = std::to_array<CheckRow>({
#define DDPSCOPE_CHECK(id, name, severity, level, needs, summary) \
  {id, #name, severity, level, needs, summary, make_##name},
#define DDPSCOPE_TOOL_CHECK(id, name, severity, level, needs, summary) \
  {id, #name, severity, level, needs, summary, nullptr},
#include "checks/checks.def"
#undef DDPSCOPE_CHECK
#undef DDPSCOPE_TOOL_CHECK
});

/// Their pages explain them.
constexpr std::array<std::string_view, 2> kOptions = {"device-duplicate.shared",
                                                      "loss-target-range.strict"};
}  // namespace

std::span<const CheckRow> check_table() { return kTable; }

const CheckRow* find_check(std::string_view id) {
  const auto row = std::ranges::find(kTable, id, &CheckRow::id);
  return row == kTable.end() ? nullptr : &*row;
}

std::vector<std::string> check_setting_names() {
  std::vector<std::string> names(kOptions.begin(), kOptions.end());
  for (const CheckRow& row : kTable) names.emplace_back(row.id);
  return names;
}

bool is_over_ranks(const CheckRow& row) { return row.needs.starts_with("ranks"); }

bool is_also_over_ranks(const CheckRow& row) { return row.needs.ends_with(", ranks?"); }

std::string_view level_name(CheckLevel level) {
  constexpr std::array<std::string_view, 3> kNames = {"watch", "values", "stacks"};
  return kNames[static_cast<std::size_t>(level)];
}

}  // namespace ddpscope
