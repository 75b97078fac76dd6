#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace ddpscope {

/// One row of settings.def with the type's work behind function pointers.
struct SettingRow {
  std::string_view key;
  std::string_view allowed;  ///< completes "is not ..."
  std::string_view help;
  std::string default_text;
  bool (*assign)(std::string_view text, PartialSettings& into) = nullptr;
  std::optional<std::string> (*text)(const PartialSettings& from) = nullptr;
  void (*copy)(const PartialSettings& from, Settings& into) = nullptr;
};

/// All rows in the order of settings.def.
const std::vector<SettingRow>& setting_table();
/// The row of `key`, or null.
const SettingRow* find_setting(std::string_view key);

/// What `DDPSCOPE=help=1` prints: every key with type, default and help.
std::string settings_help();
/// docs/settings.md.
std::string settings_page();

}  // namespace ddpscope
