#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "config/setting_types.h"
#include "model/run_record.h"

namespace ddpscope {

/// Every setting, resolved. One member per row of settings.def; docs/settings.md explains them.
struct Settings {
#define DDPSCOPE_SETTING(key, member, type, default_value, help) type::Value member = default_value;
#include "config/settings.def"
#undef DDPSCOPE_SETTING
  std::map<std::string, std::string> check_options;  ///< "id.option" -> value; the check parses it
  std::map<std::string, SettingValue> origins;       ///< key -> value as text and its source
};

/// What one source (environment, options, file) says; unset members leave the choice to the next.
struct PartialSettings {
#define DDPSCOPE_SETTING(key, member, type, default_value, help) std::optional<type::Value> member;
#include "config/settings.def"
#undef DDPSCOPE_SETTING
  std::map<std::string, std::string> check_options;
};

}  // namespace ddpscope
