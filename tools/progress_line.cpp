#include "tools/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::chrono::seconds kQuiet{1};
constexpr std::chrono::milliseconds kBetween{100};
constexpr const char* kErase = "\r\x1b[K";
}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      on_terminal_(::isatty(STDERR_FILENO) != 0),
      next_(Clock::now() + kQuiet) {}

ProgressLine::~ProgressLine() {
  if (is_shown_) std::fputs(kErase, stderr);
}

void ProgressLine::tell(std::size_t done, std::size_t all) {
  if (!on_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + kBetween;
  is_shown_ = true;
  std::fputs(fmt::format("{}{}: {} of {}", kErase, what_, done, all).c_str(), stderr);
}

}  // namespace ddpscope
