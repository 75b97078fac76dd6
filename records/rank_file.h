#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/finding.h"
#include "model/run_record.h"
#include "model/step_digest.h"

namespace ddpscope {

/// Where a rank stands when it stalls or dies.
struct ProgressRecord {
  std::int64_t step = 0;
  Phase phase = Phase::kForward;
  std::string reason;       ///< stall, signal, exception or exit
  std::string model;        ///< label of the root, or empty
  std::string module_path;  ///< last module entered
  std::string op;           ///< last operator or collective
  std::string what;         ///< one sentence; for an exception its text
  std::int64_t time_unix_ns = 0;
  std::string exception;  ///< type of the exception
  std::string signal;     ///< SIGTERM
  std::int64_t code = 0;  ///< exit code
};

/// One rank file as it was read.
struct RankFile {
  std::string path;
  RunRecord run;
  std::vector<ModelRecord> models;
  Findings findings;
  std::vector<ProgressRecord> progress;
  std::vector<StepRecord> steps;                ///< a part of them, spread over the run
  std::int64_t last_step = 0;                   ///< of the step records, which are sampled
  std::vector<SuppressionRecord> suppressions;  ///< of a clean exit
  std::optional<SummaryRecord> summary;
  bool truncated = false;  ///< the last line is incomplete
  bool ran_out = false;    ///< of room to write: how the rank ended is not known
  std::vector<std::string> notes;
};

/// Why a file is not usable.
struct ReadProblem {
  std::string path;
  std::int64_t line = 0;  ///< 1-based; 0 is the file itself
  std::string text;
  bool newer_schema = false;
  bool cut_short = false;  ///< the writer ended before its first line was complete
};

}  // namespace ddpscope
