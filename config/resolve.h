#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/parser.h"
#include "config/settings.h"

namespace ddpscope {

/// What an unset or empty `DDPSCOPE` means.
enum class ActivatedBy : std::uint8_t { kProgram, kEnvironment };
enum class ResolvedState : std::uint8_t { kOff, kDormant, kOn };

/// The outcome. With problems the settings hold every entry that was right; the caller decides
/// whether to stop (attach) or to run undiagnosed (preload).
struct Resolved {
  ResolvedState state = ResolvedState::kOn;
  Settings settings;
  std::vector<SettingsProblem> problems;
  bool help_requested = false;
};

/// Off switch > environment > options > config_file > default.
Resolved resolve(const std::optional<std::string>& env_value, const PartialSettings& options,
                 ActivatedBy activated_by, const CheckIds& check_ids);

/// What `options` ask for that the settings of a running session are not: `level="stacks" (it has
/// "values")`, joined by ", ". Not what the environment decided, which wins over options.
std::string unused_options(const Settings& running, const PartialSettings& options);

/// Replaces `%r` rank, `%p` pid, `%h` host and `%%`; a host adds no folder to the path.
std::string expand_report_dir(std::string_view pattern, std::int64_t rank, std::int64_t pid,
                              std::string_view host);

}  // namespace ddpscope
