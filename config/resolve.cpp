#include "config/resolve.h"

#include <algorithm>
#include <array>
#include <utility>

#include "config/setting_table.h"
#include "config/suppressions.h"
#include "config/text.h"

namespace ddpscope {
namespace {
void apply_defaults(Settings& settings) {
  for (const SettingRow& row : setting_table()) {
    settings.origins[std::string(row.key)] = {row.default_text, "default"};
  }
}

void apply(const PartialSettings& layer, const std::string& source, Settings& settings) {
  for (const SettingRow& row : setting_table()) {
    const auto text = row.text(layer);
    if (!text) continue;
    row.copy(layer, settings);
    settings.origins[std::string(row.key)] = {*text, source};
  }
  for (const auto& [key, value] : layer.check_options) {
    settings.check_options[key] = value;
    settings.origins[key] = {value, source};
  }
}

void append(std::vector<SettingsProblem>& into, const std::vector<SettingsProblem>& problems) {
  into.insert(into.end(), problems.begin(), problems.end());
}

// Where what is wrong with the value of a setting is to be corrected.
std::string place_of(const std::string& key, const Settings& settings) {
  const std::string& source = settings.origins.at(key).source;
  if (source == "environment") return "DDPSCOPE";
  return source == "options" ? "Options" : settings.config_file;
}

/// The first of the file of suppressions; it may be a list of something else.
std::vector<SettingsProblem> problem_of_suppressions(const Settings& settings) {
  const std::string& path = settings.suppressions;
  if (path.empty()) return {};
  const std::string place = place_of("suppressions", settings);
  const std::vector<std::string> problems = read_suppressions(path, place).problems;
  if (problems.empty()) return {};
  return {{.place = place, .key = "suppressions", .value = path, .message = problems.front()}};
}

// What a level may take where nothing says it.
void choose_overhead(Settings& settings) {
  SettingValue& told = settings.origins.at("overhead");
  if (told.source != "default" || settings.level == Level::kValues) return;
  const bool takes_little = settings.level == Level::kWatch;
  settings.overhead = takes_little ? 0.5 : 10;
  told.value = takes_little ? "0.5" : "10";
}

// A host name comes from outside: it must not add folders or become "..".
std::string one_path_part(std::string_view host) {
  std::string part(host);
  const auto is_kept = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  std::ranges::replace_if(
      part, [&](char c) { return !is_kept(c); }, '_');
  if (part.starts_with('.')) part.front() = '_';
  return part;
}
}  // namespace

Resolved resolve(const std::optional<std::string>& env_value, const PartialSettings& options,
                 ActivatedBy activated_by, const CheckIds& check_ids) {
  Resolved out;
  apply_defaults(out.settings);
  const ParsedSettings env = parse_environment(env_value.value_or(""), check_ids);
  if (env.off) {
    out.state = ResolvedState::kOff;
    return out;
  }
  if (!env.says_something && activated_by == ActivatedBy::kEnvironment) {
    out.state = ResolvedState::kDormant;
    return out;
  }
  const ParsedSettings given = parse_options(options, check_ids);
  ParsedSettings file;
  const bool env_names_file = env.settings.config_file.has_value();
  const std::string path =
      env_names_file ? *env.settings.config_file : given.settings.config_file.value_or("");
  if (!path.empty()) {
    file = parse_config_file(path, env_names_file ? "DDPSCOPE" : "Options", check_ids);
  }
  apply(file.settings, "config_file", out.settings);
  apply(given.settings, "options", out.settings);
  apply(env.settings, "environment", out.settings);
  choose_overhead(out.settings);
  append(out.problems, env.problems);
  append(out.problems, given.problems);
  append(out.problems, file.problems);
  append(out.problems, problem_of_suppressions(out.settings));
  out.help_requested = env.help_requested || file.help_requested;
  return out;
}

std::string unused_options(const Settings& running, const PartialSettings& options) {
  Settings asked;
  apply(options, "options", asked);
  std::string unused;
  for (const auto& [key, setting] : asked.origins) {
    const auto has = running.origins.find(key);
    const bool is_known = has != running.origins.end();
    if (is_known && (has->second.source == "environment" || has->second.value == setting.value)) {
      continue;
    }
    unused += (unused.empty() ? "" : ", ") + escaped(key) + "=" + quoted(setting.value) +
              " (it has " + quoted(is_known ? has->second.value : "") + ")";
  }
  return unused;
}

std::string expand_report_dir(std::string_view pattern, std::int64_t rank, std::int64_t pid,
                              std::string_view host) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'r') {
      out += std::to_string(rank);
    } else if (next == 'p') {
      out += std::to_string(pid);
    } else if (next == 'h') {
      out += one_path_part(host);
    } else {
      out += pattern[i];
      if (next == '%') ++i;
      continue;
    }
    ++i;
  }
  return out;
}

}  // namespace ddpscope
