#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "model/run_record.h"

namespace ddpscope {

/// What one rank tells a monitoring system of its run so far.
struct RunMetrics {
  RunRecord run;
  std::int64_t steps = 0;
  std::optional<double> step_seconds;          ///< of the last step
  std::optional<double> overhead_seconds;      ///< of it, spent in hooks
  std::map<std::string, std::int64_t> errors;  ///< findings by id that are not suppressed
  std::map<std::string, std::int64_t> warnings;
  std::map<std::string, std::int64_t> notes;
  std::int64_t suppressed = 0;
  std::int64_t events_dropped = 0;
  std::int64_t unix_ns = 0;
  bool has_ended = false;
};

/// The text exposition format 0.0.4 of Prometheus; docs/report-format.md lists the names.
std::string metrics_text(const RunMetrics& metrics);

}  // namespace ddpscope
