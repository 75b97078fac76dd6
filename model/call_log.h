#pragma once

#include <cstdint>
#include <string_view>

#include "model/collective_event.h"

namespace ddpscope {

/// Where hooks write a collective before it is issued, so that the note outlives the process.
/// Called on training threads: never blocks on another process, never throws.
class CallLog {
 public:
  virtual ~CallLog() = default;
  /// A number for this text, the same each time; 0 when there is no room for more.
  virtual NameId name(std::string_view text) noexcept = 0;
  /// Returns the place of the record, for `ended`.
  virtual std::uint64_t issued(const CallRecord& call) noexcept = 0;
  virtual void ended(std::uint64_t place, std::uint32_t waited_us, CallState state) noexcept = 0;
};

}  // namespace ddpscope
