#pragma once

#include "config/resolve.h"

namespace ddpscope {

/// The variable says `0` or `off`: then nothing else is read.
bool is_switched_off();

/// What `Options` say. Throws SettingsFault where they are wrong.
PartialSettings given_settings(const OptionTexts& options);

/// What variable, options and config file say together. Throws SettingsFault where that is wrong.
Resolved resolve_settings(const PartialSettings& options, ActivatedBy activated_by);

/// The option `loss-target-range.strict`.
bool waits_for_targets(const Settings& settings);

/// Says once what an attach to a running session asks for and does not get.
void tell_unused_options(const Settings& settings, const PartialSettings& options);

}  // namespace ddpscope
