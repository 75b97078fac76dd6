#pragma once

#include <cstdint>
#include <optional>

#include "model/open_calls.h"

namespace ddpscope {

/// Tells when a collective takes much longer than all before it, and longer than the setting
/// `hang_after_s`, while somebody waits in it or nothing else happens.
class HangWatch {
 public:
  explicit HangWatch(std::int64_t hang_after_ns) : hang_after_ns_(hang_after_ns) {}

  struct Stall {
    OpenCalls::Call call;
    std::int64_t waited_ns = 0;
    std::int64_t median_ns = 0;  ///< of the calls before it
  };
  /// `progress` moves while the process does something. Each call is told once, and again whenever
  /// its age has doubled.
  std::optional<Stall> look(OpenCalls& calls, std::uint64_t progress, std::int64_t now_ns);
  /// How long nothing has happened, once that is longer than `hang_after_s` and no collective is
  /// open; told like a call.
  std::optional<std::int64_t> stood_still(OpenCalls& calls, std::int64_t now_ns);

 private:
  std::int64_t hang_after_ns_;
  std::uint64_t progress_ = 0;
  std::int64_t moved_ns_ = 0;
  std::uint64_t told_ = 0;  ///< number of the call
  std::int64_t told_age_ns_ = 0;
  std::int64_t told_still_ns_ = 0;
};

}  // namespace ddpscope
