#include "plugin/session_settings.h"

#include <mutex>

#include "checks/check_table.h"
#include "config/env.h"
#include "config/text.h"
#include "plugin/log.h"
#include "plugin/public_api.h"

namespace ddpscope {
namespace {
constexpr char kStrictTargets[] = "loss-target-range.strict";
constexpr char kSharedDevices[] = "device-duplicate.shared";

using CheckOptions = std::map<std::string, std::string>;

// One line for each.
[[noreturn]] void throw_problems(const std::vector<SettingsProblem>& problems) {
  std::string message;
  for (const SettingsProblem& problem : problems) {
    if (!message.empty()) message += '\n';
    message += problem.message;
    if (!problem.fix.empty()) message += "; fix: " + problem.fix;
  }
  throw SettingsFault{std::move(message)};
}

bool is_on(const CheckOptions& options, const char* option) {
  const auto given = options.find(option);
  if (given == options.end()) return false;
  if (const auto on = Switch::parse(given->second)) return *on;
  throw SettingsFault{std::string(option) + "=" + ddpscope::quoted(given->second) + " is not " +
                      std::string(Switch::kAllowed)};
}

// Throws where one is neither on nor off.
void require_switches(const CheckOptions& options) {
  for (const char* option : {kStrictTargets, kSharedDevices}) is_on(options, option);
}
}  // namespace

bool is_switched_off() {
  return parse_environment(environment("DDPSCOPE").value_or(""), check_setting_names()).off;
}

PartialSettings given_settings(const OptionTexts& options) {
  ParsedSettings parsed = parse_option_texts(options, check_setting_names());
  if (!parsed.problems.empty()) throw_problems(parsed.problems);
  require_switches(parsed.settings.check_options);
  return std::move(parsed.settings);
}

Resolved resolve_settings(const PartialSettings& options, ActivatedBy activated_by) {
  Resolved resolved =
      resolve(environment("DDPSCOPE"), options, activated_by, check_setting_names());
  if (resolved.state != ResolvedState::kOn) return resolved;
  if (!resolved.problems.empty()) throw_problems(resolved.problems);
  require_switches(resolved.settings.check_options);
  return resolved;
}

bool waits_for_targets(const Settings& settings) {
  return is_on(settings.check_options, kStrictTargets);
}

void tell_unused_options(const Settings& settings, const PartialSettings& options) {
  static std::once_flag said;
  const std::string unused = unused_options(settings, options);
  if (unused.empty()) return;
  std::call_once(said, [&unused] {
    log_warning("Options: the session runs already and does not take " + unused);
  });
}

}  // namespace ddpscope
