#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/rank_words.h"
#include "records/rank_file.h"

namespace ddpscope {

struct SkippedFile {
  std::string path;
  std::string why;
};

enum class CoverageState : std::uint8_t { kPassed, kFailed, kBlocked };

/// What became of one check.
struct Coverage {
  CoverageState state = CoverageState::kPassed;
  std::string why;
  std::vector<std::int64_t> ranks;  ///< that ran it, that failed it or that are blocked
};

/// A finding and what it explains.
struct Incident {
  std::string primary;
  std::vector<std::string> members;  ///< fingerprints, without the primary
};

/// Shares of step time; absent: not measured.
struct Overhead {
  std::optional<double> percent;        ///< the highest of all ranks, after `full_cycles`
  std::optional<double> percent_first;  ///< in those
  std::map<std::string, CheckCost> checks;
};

/// A collective as its rank issued it.
struct CallSpan {
  std::string name;
  std::int64_t step = 0;
  std::int64_t unix_ns = 0;
  std::int64_t waited_us = 0;  ///< of the caller
  bool has_ended = false;
};

/// How one rank ended.
struct RankState {
  RunRecord run;
  bool has_summary = false;
  bool clean_exit = false;
  bool truncated = false;
  std::int64_t steps = 0;
  std::int64_t events_dropped = 0;
  std::vector<ProgressRecord> progress;
  std::vector<StepRecord> sampled_steps;  ///< not part of report.json, as are the calls
  std::vector<CallSpan> calls;            ///< where they were asked for
};

/// All ranks of one run; `report.json` of docs/report-format.md.
struct MergedReport {
  std::int64_t schema = kReportSchema;
  std::string tool_version;
  std::string run_id;
  std::int64_t world_size = 1;
  std::vector<RankState> ranks;
  std::vector<ModelRecord> models;
  Findings findings;  ///< primary first, then by weight
  std::map<std::string, Coverage> coverage;
  Overhead overhead;
  std::vector<std::int64_t> missing_ranks;
  std::vector<SkippedFile> skipped_files;
  std::string primary;  ///< fingerprint, or empty
  std::vector<Incident> incidents;
  std::map<std::string, std::int64_t> counts_by_id;  ///< without suppressed findings
  std::int64_t errors = 0;
  std::int64_t warnings = 0;
  std::int64_t notes = 0;
  std::int64_t suppressed = 0;
  std::vector<SuppressionRecord> leftover_suppressions;  ///< unused or expired
  std::vector<std::string> remarks;  ///< what a reader of the report must know of its input
};

struct MergeOptions {
  std::string dir_name;                 ///< named where a rank left no record
  std::string run_id;                   ///< empty: the newest
  std::string tool_version;             ///< of the merging program
  Findings found_at_merge;              ///< of the cross-rank checks
  std::vector<std::int64_t> cut_short;  ///< ranks whose file holds no complete line, in order
  /// Of the checks that judge all ranks together: passed, or blocked. Their findings say the rest.
  std::map<std::string, Coverage> judged_at_merge;
  std::vector<std::string> remarks;  ///< of the merging program
};

/// Joins the rank files of one run. `skipped` is what could not be read.
MergedReport merge(std::vector<RankFile> files, std::vector<SkippedFile> skipped,
                   const MergeOptions& options = {});

/// Null where the report has no primary finding.
const Finding* primary_finding(const MergedReport& report);

/// Counts again what is not suppressed, and chooses the primary: after `suppressed` was changed.
void judge_again(MergedReport& report);

/// 0 clean, 1 findings at or above `fail_on`, 4 incomplete: ranks missing, or a check of
/// `named_checks` (those the user named without a glob) blocked.
int exit_code(const MergedReport& report, Severity fail_on,
              const std::vector<std::string>& named_checks = {});

}  // namespace ddpscope
