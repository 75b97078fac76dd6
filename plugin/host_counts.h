#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "model/count_event.h"
#include "records/file_descriptor.h"

namespace ddpscope {

/// Reads what this process takes of its host. On the worker's thread.
class HostCounts {
 public:
  explicit HostCounts(std::int64_t local_ranks);

  /// As it is now; what seldom changes is read again each 1000th time.
  HostCountsEvent read(const Stamp& at);

 private:
  void read_slowly();
  std::int64_t resident_bytes() const;

  std::int64_t local_ranks_;
  std::int64_t reads_ = 0;
  HostCountsEvent counts_;
  FileDescriptor memory_;
  std::chrono::steady_clock::time_point start_;
};

/// The threads of this process that have this name.
std::int64_t threads_named(std::string_view name);

}  // namespace ddpscope
