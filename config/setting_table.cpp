#include "config/setting_table.h"

#include <algorithm>

namespace ddpscope {
namespace {
std::vector<SettingRow> make_table() {
  const Settings defaults;
  std::vector<SettingRow> rows;
#define DDPSCOPE_SETTING(key_text, member, type, default_value, help_text)                \
  rows.push_back({.key = key_text,                                                        \
                  .allowed = type::kAllowed,                                              \
                  .help = help_text,                                                      \
                  .default_text = type::text(defaults.member),                            \
                  .assign =                                                               \
                      [](std::string_view text, PartialSettings& into) {                  \
                        auto value = type::parse(text);                                   \
                        if (!value) return false;                                         \
                        into.member = std::move(*value);                                  \
                        return true;                                                      \
                      },                                                                  \
                  .text = [](const PartialSettings& from) -> std::optional<std::string> { \
                    if (!from.member) return std::nullopt;                                \
                    return type::text(*from.member);                                      \
                  },                                                                      \
                  .copy =                                                                 \
                      [](const PartialSettings& from, Settings& into) {                   \
                        if (from.member) into.member = *from.member;                      \
                      }});
#include "config/settings.def"
#undef DDPSCOPE_SETTING
  return rows;
}
}  // namespace

const std::vector<SettingRow>& setting_table() {
  static const std::vector<SettingRow> table = make_table();
  return table;
}

const SettingRow* find_setting(std::string_view key) {
  const auto& table = setting_table();
  const auto row = std::ranges::find(table, key, &SettingRow::key);
  return row == table.end() ? nullptr : &*row;
}

}  // namespace ddpscope
