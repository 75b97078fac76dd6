#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/fault_table.h"
#include "records/fault_file.h"
#include "records/rank_file.h"
#include "tools/scratch_process.h"

namespace ddpscope {

struct TrialPlan {
  std::vector<std::string> argv;
  /// With `DDPSCOPE` as it is to be, but for the report folder.
  ProcessEnvironment environment;
  std::int64_t after = 8;     ///< complete steps before a fault
  std::int64_t seconds = 60;  ///< for one process
  int ranks = 1;
  std::string launcher = {};  ///< of several ranks: this tool
};

/// What one process left, or all ranks of one run.
struct ScratchRun {
  ScratchEnd end;
  FaultRecord fault;
  /// None: there is no record. Of several ranks that of the first, with all findings of the run.
  std::optional<RankFile> file;
};

enum class TrialState : std::uint8_t {
  kCaught,
  kMissed,
  kMisfit,     ///< the program has no place for the fault
  kUndecided,  ///< the process ended before the fault could be found
};

struct Trial {
  const FaultRow* fault = nullptr;
  TrialState state = TrialState::kUndecided;
  std::int64_t latency_steps = 0;  ///< from the step of the fault; of a caught one
  std::string why;                 ///< of any other
  Finding finding;                 ///< of a caught one
};

/// Starts the program again and again in a scratch folder, with one fault each time.
class FaultTrials {
 public:
  /// Throws CommandError where the program cannot be tried: it does not start, writes no record,
  /// fails by itself, or ends before a fault could be planted.
  FaultTrials(TrialPlan plan, std::string scratch_dir);

  Trial run(const FaultRow& fault);
  /// Of the run without a fault.
  double step_ms() const { return base_.fault.step_ms; }
  /// A setting of that run, as its record has it; empty: it has none.
  std::string setting(const std::string& name) const;
  std::size_t own_findings() const { return base_.file->findings.size(); }

 private:
  ScratchRun start(std::string_view fault, std::int64_t steps, const std::string& known);
  void start_ranks(const std::string& dir, ProcessEnvironment environment, ScratchRun& run) const;
  /// Of what the program has without a fault; a blank before each.
  std::string own_fingerprints(std::string_view check = {}) const;
  /// Why the check does not run; empty: it does.
  std::string why_unchecked(std::string_view check) const;

  TrialPlan plan_;
  std::string scratch_dir_;
  ScratchRun base_;
  int runs_ = 0;
};

/// What became of a fault, from what its run left and the fingerprints that were there before.
Trial judge_trial(const FaultRow& fault, const ScratchRun& run, const std::string& known);

}  // namespace ddpscope
