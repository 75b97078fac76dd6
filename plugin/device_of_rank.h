#pragma once

#include <memory>

#include "model/device_memory_event.h"
#include "model/run_record.h"
#include "model/tree_event.h"

namespace ddpscope {

/// The GPU of this rank, and what the process holds on all of them. On the worker's thread.
class DeviceOfRank {
 public:
  explicit DeviceOfRank(DeviceReaders readers) : readers_(readers) {}

  /// Notes in the run the device on which a model lies. True when that is news.
  bool see(const TreeEvent& tree, RunRecord& run);
  /// When a cycle has ended: null where there is nothing to tell.
  std::unique_ptr<DeviceMemoryEvent> read(const Stamp& at) const;

 private:
  DeviceReaders readers_;
  bool is_known_ = false;
};

}  // namespace ddpscope
