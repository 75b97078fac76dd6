#include "plugin/preloaded.h"

#include <stdlib.h>

#include <fstream>
#include <string>
#include <string_view>

#include "config/env.h"
#include "hooks/model_discovery.h"
#include "plugin/held_signals.h"
#include "plugin/log.h"
#include "plugin/public_api.h"
#include "plugin/session.h"

namespace ddpscope {
namespace {
constexpr std::string_view kPreloadName = "libddpscope_preload.so";
constexpr std::string_view kSeparators = ": ";

std::string preload_list() { return environment("LD_PRELOAD").value_or(""); }

// The list that the process was started with: heap profilers take it out of the environment before
// any other library runs. Empty where the system does not tell.
std::string first_preload_list() {
  constexpr std::string_view kBegin = "LD_PRELOAD=";
  std::ifstream variables("/proc/self/environ", std::ios::binary);
  for (std::string entry; std::getline(variables, entry, '\0');) {
    if (entry.starts_with(kBegin)) return entry.substr(kBegin.size());
  }
  return "";
}

bool names_us(const std::string& list) { return list.find(kPreloadName) != std::string::npos; }

// The program's children start without us: a helper program is not what was asked about.
void leave_preload_list() {
  const std::string list = preload_list();
  std::string rest;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find_first_of(kSeparators, begin), list.size());
    const std::string entry = list.substr(begin, end - begin);
    if (!entry.empty() && entry.find(kPreloadName) == std::string::npos) {
      rest += (rest.empty() ? "" : ":") + entry;
    }
    begin = end + 1;
  }
  if (rest.empty()) {
    unsetenv("LD_PRELOAD");
  } else {
    setenv("LD_PRELOAD", rest.c_str(), /*overwrite=*/1);
  }
}

void start_undisturbed() {
  try {
    if (!Session::start({}, /*only_by_environment=*/true)) stop_discovery();
  } catch (const SettingsFault& fault) {
    stop_discovery();
    const std::string first = fault.message.substr(0, fault.message.find('\n'));
    log_error(first + ". Training continues undiagnosed.");
  }
  leave_preload_list();
}

// At the first use of LibTorch: nothing of ours may stop the program.
void start() noexcept {
  const HeldSignals held;
  try {
    start_undisturbed();
  } catch (...) {
    stop_discovery();
  }
}
}  // namespace

void discover_if_preloaded() noexcept {
  try {
    if (names_us(preload_list()) || names_us(first_preload_list())) discover_models(start);
  } catch (...) {  // no memory for a list: then nothing is watched
  }
}

}  // namespace ddpscope
