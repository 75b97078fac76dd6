#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace ddpscope {

/// One wrong entry. `message` is one line of printable ASCII:
/// `DDPSCOPE: unknown key "chekcs"; did you mean "checks"?`
struct SettingsProblem {
  std::string place{};  ///< DDPSCOPE, Options or file:line
  std::string key{};
  std::string value{};
  std::string allowed{};      ///< completes "is not ..."; empty where the key is unknown
  std::string nearest_key{};  ///< empty where no known key is near
  std::string message{};
  std::string fix{};
};

/// What one text says.
struct ParsedSettings {
  PartialSettings settings;
  std::vector<SettingsProblem> problems;  ///< at most kMaxProblems
  bool off = false;
  bool says_something = false;
  bool help_requested = false;
};
inline constexpr std::size_t kMaxProblems = 20;
inline constexpr std::size_t kMaxValueBytes = 16384;
inline constexpr std::size_t kMaxFileBytes = 1 << 20;

using CheckIds = std::vector<std::string>;

/// Parses the text of the variable `DDPSCOPE`; docs/settings.md has the grammar.
ParsedSettings parse_environment(std::string_view text, const CheckIds& check_ids);
/// Parses the text of a `config_file`; `path` is for messages.
ParsedSettings parse_config_text(std::string_view text, std::string_view path,
                                 const CheckIds& check_ids);
/// Reads and parses a `config_file`. A file that cannot be read is a problem at `place`.
ParsedSettings parse_config_file(const std::string& path, std::string_view place,
                                 const CheckIds& check_ids);
/// Holds values that came from C++ to the rules of the text; keeps those that are right.
ParsedSettings parse_options(const PartialSettings& options, const CheckIds& check_ids);

}  // namespace ddpscope
