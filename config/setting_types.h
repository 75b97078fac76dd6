#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "model/finding.h"

namespace ddpscope {

enum class Level : std::uint8_t { kWatch, kValues, kStacks };
enum class HaltOn : std::uint8_t { kNone, kError, kWarning };
enum class Exchange : std::uint8_t { kAuto, kOff, kStore, kFiles };
enum class Console : std::uint8_t { kAuto, kQuiet, kBrief, kFull };
/// In the order of spdlog's levels.
enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kCritical, kOff };

// The types of settings.def. Each owns its range, its unit and the words for both: `kAllowed`
// completes "is not ...", `parse` takes text in and `text` gives the same text back.

template <typename Enum>
struct Named {
  std::string_view name;
  Enum value;
};

template <typename Self, typename Enum>
struct Choice {
  using Value = Enum;
  static std::optional<Enum> parse(std::string_view text) {
    for (const auto& named : Self::kNames) {
      if (named.name == text) return named.value;
    }
    return std::nullopt;
  }
  static std::string text(Enum value) {
    for (const auto& named : Self::kNames) {
      if (named.value == value) return std::string(named.name);
    }
    return std::to_string(static_cast<int>(value));
  }
};

struct LevelChoice : Choice<LevelChoice, Level> {
  static constexpr std::string_view kAllowed = "one of watch|values|stacks";
  static constexpr std::array kNames = {Named<Level>{"watch", Level::kWatch},
                                        Named<Level>{"values", Level::kValues},
                                        Named<Level>{"stacks", Level::kStacks}};
};

struct HaltOnChoice : Choice<HaltOnChoice, HaltOn> {
  static constexpr std::string_view kAllowed = "one of none|error|warning";
  static constexpr std::array kNames = {Named<HaltOn>{"none", HaltOn::kNone},
                                        Named<HaltOn>{"error", HaltOn::kError},
                                        Named<HaltOn>{"warning", HaltOn::kWarning}};
};

struct SeverityChoice : Choice<SeverityChoice, Severity> {
  static constexpr std::string_view kAllowed = "one of error|warning|note";
  static constexpr std::array kNames = {Named<Severity>{"error", Severity::kError},
                                        Named<Severity>{"warning", Severity::kWarning},
                                        Named<Severity>{"note", Severity::kNote}};
};

struct ExchangeChoice : Choice<ExchangeChoice, Exchange> {
  static constexpr std::string_view kAllowed = "one of auto|off|store|files";
  static constexpr std::array kNames = {
      Named<Exchange>{"auto", Exchange::kAuto}, Named<Exchange>{"off", Exchange::kOff},
      Named<Exchange>{"store", Exchange::kStore}, Named<Exchange>{"files", Exchange::kFiles}};
};

struct ConsoleChoice : Choice<ConsoleChoice, Console> {
  static constexpr std::string_view kAllowed = "one of auto|quiet|brief|full";
  static constexpr std::array kNames = {
      Named<Console>{"auto", Console::kAuto}, Named<Console>{"quiet", Console::kQuiet},
      Named<Console>{"brief", Console::kBrief}, Named<Console>{"full", Console::kFull}};
};

struct LogLevelChoice : Choice<LogLevelChoice, LogLevel> {
  static constexpr std::string_view kAllowed = "one of trace|debug|info|warn|error|critical|off";
  static constexpr std::array kNames = {
      Named<LogLevel>{"trace", LogLevel::kTrace}, Named<LogLevel>{"debug", LogLevel::kDebug},
      Named<LogLevel>{"info", LogLevel::kInfo},   Named<LogLevel>{"warn", LogLevel::kWarn},
      Named<LogLevel>{"error", LogLevel::kError}, Named<LogLevel>{"critical", LogLevel::kCritical},
      Named<LogLevel>{"off", LogLevel::kOff}};
};

struct Switch {
  using Value = bool;
  static constexpr std::string_view kAllowed = "0 or 1";
  static std::optional<bool> parse(std::string_view text);
  static std::string text(bool value) { return value ? "1" : "0"; }
};

/// The whole of `text` as a decimal number, or nothing.
std::optional<std::int64_t> parse_integer(std::string_view text);

template <std::int64_t kMin, std::int64_t kMax>
struct Integer {
  using Value = std::int64_t;
  static std::optional<std::int64_t> parse(std::string_view text) {
    const auto value = parse_integer(text);
    if (!value || *value < kMin || *value > kMax) return std::nullopt;
    return value;
  }
  static std::string text(std::int64_t value) { return std::to_string(value); }
};

struct Mebibytes : Integer<1, 1 << 20> {
  static constexpr std::string_view kAllowed = "a whole number of MiB from 1 to 1048576";
};
struct ExitCode : Integer<0, 255> {
  static constexpr std::string_view kAllowed = "a whole number from 0 to 255";
};
struct Entries : Integer<16, 1 << 24> {
  static constexpr std::string_view kAllowed = "a whole number of entries from 16 to 16777216";
};
struct Frames : Integer<1, 256> {
  static constexpr std::string_view kAllowed = "a whole number of frames from 1 to 256";
};
struct Steps : Integer<1, std::numeric_limits<std::int64_t>::max()> {
  static constexpr std::string_view kAllowed = "a whole number of steps >= 1";
};
struct Cycles : Integer<1, std::numeric_limits<std::int64_t>::max()> {
  static constexpr std::string_view kAllowed = "a whole number of cycles >= 1";
};
struct Milliseconds : Integer<1, 86'400'000> {
  static constexpr std::string_view kAllowed = "a whole number of ms from 1 to 86400000";
};
struct Seconds : Integer<1, 31'536'000> {
  static constexpr std::string_view kAllowed = "a whole number of s from 1 to 31536000";
};

struct Percent {
  using Value = double;
  static constexpr std::string_view kAllowed = "a number of percent from 0 to 1000";
  static std::optional<double> parse(std::string_view text);
  static std::string text(double value);
};

struct Text {
  using Value = std::string;
  static std::string text(const std::string& value) { return value; }
};
struct RequiredText : Text {
  static constexpr std::string_view kAllowed = "a path of at least one character";
  static std::optional<std::string> parse(std::string_view text);
};
struct OptionalText : Text {
  static constexpr std::string_view kAllowed = "a path, or nothing";
  static std::optional<std::string> parse(std::string_view text);
};
struct CheckGlobs : Text {
  static constexpr std::string_view kAllowed = "a comma-separated list of globs of check ids";
  static std::optional<std::string> parse(std::string_view text);
};
struct Globs : Text {
  static constexpr std::string_view kAllowed = "a comma-separated list of globs, or nothing";
  static std::optional<std::string> parse(std::string_view text);
};
struct Declarations : Text {
  static constexpr std::string_view kAllowed =
      "a comma-separated list of glob=kind, or nothing; a kind is one of "
      "external|rank_local|sharded|shared_data|not_averaged|intended";
  static std::optional<std::string> parse(std::string_view text);
};

}  // namespace ddpscope
