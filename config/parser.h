#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.h"

namespace ddpscope {

/// One wrong entry. `message` is one line of printable ASCII:
/// `DDPSCOPE: unknown key "hlep" (value "1"); did you mean "help"? Its value is 0 or 1`
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

/// The ids of the checks, and each option that one of them has as `<id>.<option>`.
using CheckIds = std::vector<std::string>;
/// Key and value of each member of the public `Options` that is set.
using OptionTexts = std::vector<std::pair<std::string, std::string>>;

/// Parses the text of the variable `DDPSCOPE`; docs/settings.md has the grammar.
ParsedSettings parse_environment(std::string_view text, const CheckIds& check_ids);
/// Parses the text of a `config_file`; `path` is for messages.
ParsedSettings parse_config_text(std::string_view text, std::string_view path,
                                 const CheckIds& check_ids);
/// Reads and parses a `config_file`. A file that cannot be read is a problem at `place`.
ParsedSettings parse_config_file(const std::string& path, std::string_view place,
                                 const CheckIds& check_ids);
/// Holds the values of `Options` to the rules of the text, as they are: no escapes, no comments.
ParsedSettings parse_option_texts(const OptionTexts& options, const CheckIds& check_ids);
/// Holds values that came from C++ to the rules of the text; keeps those that are right.
ParsedSettings parse_options(const PartialSettings& options, const CheckIds& check_ids);

}  // namespace ddpscope
