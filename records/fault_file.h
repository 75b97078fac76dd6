#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "records/rank_file.h"

namespace ddpscope {

inline constexpr char kFaultFileName[] = "fault.json";

/// How a process fared into which `ddpscope selftest` planted a fault.
struct FaultRecord {
  std::string fault;                         ///< its name; empty: none was asked for
  std::int64_t steps = 0;                    ///< that were complete when this was written
  double step_ms = 0;                        ///< mean of them
  std::optional<std::int64_t> planted_step;  ///< the first that it harmed
  std::optional<std::int64_t> found_steps;   ///< complete when the finding stood in the report
  bool timed_out = false;                    ///< the process ended itself because its time was over
  bool ended = false;                        ///< the process ended itself when all was seen
};

/// Writes `<dir>/fault.json`. Returns an error text, or nothing.
std::string write_fault_file(const std::string& dir, const FaultRecord& record);

/// Reads one and trusts nothing in it.
std::variant<FaultRecord, ReadProblem> read_fault_file(const std::string& path);

}  // namespace ddpscope
