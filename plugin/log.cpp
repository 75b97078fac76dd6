#include "plugin/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace ddpscope {
namespace {
// An object of our own, never spdlog's default logger: that one may be the program's. Leaked, since
// lines are written until the very end of the process.
spdlog::logger& logger() {
  static auto* const leaked = [] {
    auto* made = new spdlog::logger("ddpscope", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("ddpscope: %l: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *leaked;
}
}  // namespace

void set_log_level(LogLevel level) {
  logger().set_level(static_cast<spdlog::level::level_enum>(level));
}
void log_error(const std::string& text) { logger().error(text); }
void log_warning(const std::string& text) { logger().warn(text); }
void log_info(const std::string& text) { logger().info(text); }

}  // namespace ddpscope
