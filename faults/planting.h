#pragma once

#include <cstdint>
#include <memory>

#include "faults/fault.h"
#include "model/fault_table.h"

namespace ddpscope {

/// Learns how a fault fares, on the thread that trains.
class FaultObserver {
 public:
  virtual ~FaultObserver() = default;
  /// The first harm is done in this step, right after the call.
  virtual void fault_planted(std::int64_t step) = 0;
  /// So many steps are complete. May end the process.
  virtual void steps_completed(std::int64_t steps) = 0;
};

struct Planting {
  std::unique_ptr<Fault> fault;       ///< none: the steps are told alone
  std::int64_t after = 0;             ///< the fault begins when so many steps are complete
  FaultObserver* observer = nullptr;  ///< outlives the process's training
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
};

/// Puts a fault into the places where the program calls LibTorch, in front of the hooks, which see
/// of it what they would see of the program's own mistake. Once per process, after the hooks.
/// The program's first thread that comes there is the one that meets the fault.
void plant(Planting planting);

}  // namespace ddpscope
