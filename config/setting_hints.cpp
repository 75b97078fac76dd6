#include "config/setting_hints.h"

#include <algorithm>

#include "config/setting_table.h"
#include "config/setting_types.h"
#include "config/text.h"

namespace ddpscope {
namespace {
std::vector<std::string_view> all_keys() {
  std::vector<std::string_view> keys = {kHelp};
  for (const SettingRow& row : setting_table()) keys.push_back(row.key);
  return keys;
}

std::string listed(const std::vector<std::string_view>& keys) {
  std::string text;
  for (const std::string_view key : keys) text.append(text.empty() ? "" : ", ").append(key);
  return text;
}

std::string of_near_key(std::string_view near) {
  const SettingRow* row = find_setting(near);
  return did_you_mean(near, row == nullptr ? Switch::kAllowed : row->allowed);
}
}  // namespace

std::string did_you_mean(std::string_view nearest_key, std::string_view allowed) {
  if (nearest_key.empty()) return "";
  const std::string values = allowed.empty() ? "" : " Its value is " + std::string(allowed);
  return "; did you mean " + quoted(nearest_key) + "?" + values;
}

std::string key_hint(std::string_view near) {
  return near.empty() ? "; keys are " + listed(all_keys()) : of_near_key(near);
}

std::string value_hint(std::string_view entry) {
  const SettingRow* row = find_setting(entry);
  if (row == nullptr) return of_near_key(nearest_key(entry));
  return "; " + std::string(row->key) + " is " + std::string(row->allowed);
}

std::string group_hint(const std::vector<std::string_view>& ids) {
  std::vector<std::string_view> groups;
  for (const std::string_view id : ids) {
    const std::string_view group = id.substr(0, id.find('-') + 1);
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  return groups.empty() ? "" : "; ids begin with " + listed(groups);
}

std::string option_hint(std::string_view id, const std::vector<std::string_view>& options) {
  std::vector<std::string_view> own;
  for (const std::string_view option : options) {
    const std::size_t dot = option.find('.');
    if (option.substr(0, dot) == id) own.push_back(option.substr(dot + 1));
  }
  if (own.empty()) return "; " + std::string(id) + " has no options";
  return "; options of " + std::string(id) + " are " + listed(own);
}

std::string_view nearest_key(std::string_view key) { return nearest(key, all_keys()); }

bool holds_two_pairs(std::string_view entry) {
  return std::ranges::any_of(setting_table(), [entry](const SettingRow& row) {
    const std::size_t at = entry.find(std::string(row.key) + "=", 1);
    return at != std::string_view::npos &&
           std::string_view(",; ").find(entry[at - 1]) != std::string_view::npos;
  });
}

}  // namespace ddpscope
