#pragma once

#include <string>

// The border between the public header and the inside. Public types are twins of inner ones with
// the same names, so no file includes both sides freely: this one names none of them.
namespace ddpscope {

/// A wrong setting, in the words of style C6; becomes `SettingsError`.
struct SettingsFault {
  std::string message;
};

/// Throws the public `HaltError`.
[[noreturn]] void throw_halt_error(const std::string& message);

}  // namespace ddpscope
