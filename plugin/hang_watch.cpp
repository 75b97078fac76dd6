#include "plugin/hang_watch.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::int64_t kTimesMedian = 5;
}

std::optional<HangWatch::Stall> HangWatch::look(OpenCalls& calls, std::uint64_t progress,
                                                std::int64_t now_ns) {
  if (progress != progress_ || moved_ns_ == 0) {
    progress_ = progress;
    moved_ns_ = now_ns;
  }
  const auto oldest = calls.oldest();
  if (!oldest) return std::nullopt;
  const std::int64_t median_ns = calls.median_ns();
  const std::int64_t limit_ns = std::max(kTimesMedian * median_ns, hang_after_ns_);
  const std::int64_t waited_ns = now_ns - oldest->issued_ns;
  const bool was_told = oldest->number == told_ && waited_ns < 2 * told_age_ns_;
  const bool stands_still = oldest->waiting > 0 || now_ns - moved_ns_ > limit_ns;
  if (was_told || waited_ns <= limit_ns || !stands_still) return std::nullopt;
  told_ = oldest->number;
  told_age_ns_ = waited_ns;
  return Stall{.call = *oldest, .waited_ns = waited_ns, .median_ns = median_ns};
}

std::optional<std::int64_t> HangWatch::stood_still(OpenCalls& calls, std::int64_t now_ns) {
  const std::int64_t still_ns = now_ns - moved_ns_;
  if (still_ns <= hang_after_ns_) told_still_ns_ = 0;
  if (still_ns <= hang_after_ns_ || still_ns < 2 * told_still_ns_ || calls.oldest()) {
    return std::nullopt;
  }
  told_still_ns_ = still_ns;
  return still_ns;
}

}  // namespace ddpscope
