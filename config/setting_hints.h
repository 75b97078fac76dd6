#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddpscope {

inline constexpr std::string_view kHelp = "help";

/// What a refused setting says of the way out. Each is empty or begins with `; `.

/// `; did you mean "level"? Its value is one of watch|values|stacks`
std::string did_you_mean(std::string_view nearest_key, std::string_view allowed = {});
/// The same of a key as nearest_key() found it; all keys where it found none.
std::string key_hint(std::string_view near);
/// Of an entry without `=`: what its value may be.
std::string value_hint(std::string_view entry);
/// `; ids begin with autograd-, clip-`
std::string group_hint(const std::vector<std::string_view>& ids);
/// `; options of device-duplicate are shared`
std::string option_hint(std::string_view id, const std::vector<std::string_view>& options);

/// The key of a setting that is near; empty where none is.
std::string_view nearest_key(std::string_view key);
/// Whether a second pair follows behind something else than a colon.
bool holds_two_pairs(std::string_view entry);

}  // namespace ddpscope
