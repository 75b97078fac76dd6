#include "tools/fault_trials.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "checks/check_table.h"
#include "model/rank_words.h"
#include "records/jsonl_reader.h"
#include "records/launch_file.h"
#include "records/report_dir.h"
#include "tools/exit_status.h"
#include "tools/launch_settings.h"
#include "tools/launch_signals.h"
#include "tools/report_input.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kBaseSteps = 24;  // beyond the first ones
constexpr std::int64_t kGraceMs = 15'000;
constexpr char kNoFault[] = "none";

bool ran_out_of_time(const ScratchRun& run) { return run.end.timed_out || run.fault.timed_out; }

std::string described(const ScratchRun& run) {
  const ScratchEnd& end = run.end;
  if (ran_out_of_time(run)) return "its time was over";
  std::string text = end.signal != 0 ? "killed by " + signal_words(end.signal)
                                     : fmt::format("exit code {}", end.code);
  if (!end.last_error_line.empty()) text += ": " + end.last_error_line;
  return text;
}

void refuse(const std::string& line) { throw CommandError(ExitStatus::kIncomplete, line); }

void require_trainable(const ScratchRun& run, const TrialPlan& plan) {
  const std::string& program = plan.argv.front();
  if (run.end.failed() || run.end.timed_out) {
    refuse(fmt::format("{} fails without a fault: {}", program, described(run)));
  }
  if (!run.file) {
    refuse(program +
           " wrote no record; ddpscope reaches programs that train with a dynamically "
           "linked LibTorch");
  }
  if (run.fault.steps > plan.after) return;
  if (run.fault.timed_out) {
    refuse(
        fmt::format("{} took {} steps in {} s; faults are planted after {}: give it more "
                    "--seconds",
                    program, run.fault.steps, plan.seconds, plan.after));
  }
  refuse(fmt::format(
      "{} ended after {} steps; faults are planted after {}: give it more steps, or --after a "
      "smaller number",
      program, run.fault.steps, plan.after));
}

const Finding* finding_of(const RankFile& file, std::string_view check, const std::string& known) {
  const auto is_new = [&](const Finding& finding) {
    return finding.id == check && !finding.suppressed &&
           known.find(finding.fingerprint) == std::string::npos;
  };
  const auto found = std::ranges::find_if(file.findings, is_new);
  return found == file.findings.end() ? nullptr : &*found;
}

/// Where hooks rested to keep the budget.
std::string budget_words(const ScratchRun& run, std::string_view check) {
  if (!run.file || !run.file->summary) return "";
  const auto& costs = run.file->summary->overhead;
  const auto cost = costs.find(std::string(check));
  if (cost == costs.end() || cost->second.coverage >= 1) return "";
  return fmt::format("; the budget let it see {:.0f} % of the steps after the first ones",
                     100 * cost->second.coverage);
}

/// What the report has in its place.
std::string others_in(const ScratchRun& run, const std::string& known) {
  std::string others;
  if (!run.file) return others;
  for (const Finding& finding : run.file->findings) {
    const bool is_told = others.find(finding.id) != std::string::npos;
    if (is_told || known.find(finding.fingerprint) != std::string::npos) continue;
    others += (others.empty() ? "; found instead: " : ", ") + finding.id;
    if (finding.suppressed) others += " (suppressed)";
  }
  return others;
}

/// Of a process that the fault brought down, the finding's own step is all there is.
std::int64_t latency_of(const FaultRecord& fault, const Finding& finding) {
  const std::int64_t seen = fault.found_steps.value_or(finding.step);
  return std::max<std::int64_t>(0, seen - *fault.planted_step);
}
}  // namespace

Trial judge_trial(const FaultRow& fault, const ScratchRun& run, const std::string& known) {
  Trial trial{.fault = &fault};
  if (!run.fault.planted_step) {
    const bool has_no_place = run.fault.ended;
    trial.state = has_no_place ? TrialState::kMisfit : TrialState::kUndecided;
    trial.why = has_no_place
                    ? fmt::format("the program has no {}", fault.needs)
                    : fmt::format("the program ended before the fault: {}", described(run));
    return trial;
  }
  const Finding* finding = run.file ? finding_of(*run.file, fault.check, known) : nullptr;
  if (finding != nullptr) {
    trial.state = TrialState::kCaught;
    trial.latency_steps = latency_of(run.fault, *finding);
    trial.finding = *finding;
    return trial;
  }
  const std::int64_t steps = run.fault.steps - *run.fault.planted_step + 1;
  const bool was_long_enough = steps > fault.steps || run.end.failed();
  trial.state = was_long_enough ? TrialState::kMissed : TrialState::kUndecided;
  if (run.end.failed()) {
    trial.why = "not found when the program ended: " + described(run);
  } else {
    trial.why = "not found in " + counted(steps, "step");
    if (!was_long_enough) trial.why += fmt::format("; {} may be needed", fault.steps);
    if (ran_out_of_time(run)) trial.why += "; " + described(run);
    trial.why += budget_words(run, fault.check);
  }
  trial.why += others_in(run, known);
  return trial;
}

FaultTrials::FaultTrials(TrialPlan plan, std::string scratch_dir)
    : plan_(std::move(plan)), scratch_dir_(std::move(scratch_dir)) {
  base_ = start(kNoFault, kBaseSteps, "");
  require_trainable(base_, plan_);
}

ScratchRun FaultTrials::start(std::string_view fault, std::int64_t steps,
                              const std::string& known) {
  const std::string dir = fmt::format("{}/{}", scratch_dir_, runs_++);
  auto environment = plan_.environment;
  environment.set("DDPSCOPE",
                  with_overrides(environment.get("DDPSCOPE").value_or(""), {{"report_dir", dir}}));
  environment.set("DDPSCOPE_RUN_ID", new_run_id());
  environment.set(kLauncherVariable, "selftest");
  environment.set(kFaultVariable,
                  fmt::format("{} {} {} {}{}", fault, plan_.after, steps, plan_.seconds, known));
  ScratchRun run;
  if (plan_.ranks > 1) {
    start_ranks(dir, std::move(environment), run);
  } else {
    environment = rank_environments({environment, /*world_size=*/1, free_port()}).front();
    run.end = run_scratch(plan_.argv, environment, 1000 * plan_.seconds + kGraceMs);
  }
  if (run.end.start_error != 0) {
    throw CommandError(ExitStatus::kUsage, fmt::format("cannot start {}: {}", plan_.argv.front(),
                                                       ::strerror(run.end.start_error)));
  }
  if (run.end.interrupted != 0) refuse("stopped by " + signal_words(run.end.interrupted));
  auto file = read_rank_file(dir + "/" + rank_file_name(0));
  if (auto* read = std::get_if<RankFile>(&file)) run.file = std::move(*read);
  if (plan_.ranks > 1 && run.file) {
    run.file->findings = read_report_at(dir + "/report.json").report.findings;
  }
  auto record = read_fault_file(dir + "/" + kFaultFileName);
  if (auto* read = std::get_if<FaultRecord>(&record)) run.fault = *read;
  if (!run.fault.ended && run.file && run.file->summary) {
    run.fault.steps = run.file->summary->steps;  // it went on to its own end
  }
  return run;
}

void FaultTrials::start_ranks(const std::string& dir, ProcessEnvironment environment,
                              ScratchRun& run) const {
  std::vector<std::string> argv = {plan_.launcher, "run", "--nproc", std::to_string(plan_.ranks),
                                   "--out",        dir,   "--"};
  argv.insert(argv.end(), plan_.argv.begin(), plan_.argv.end());
  run.end = run_scratch(argv, environment, 1000 * plan_.seconds + kGraceMs);
  constexpr std::string_view kOfRank = "its last error line: ";
  std::string& line = run.end.last_error_line;
  if (const auto at = line.find(kOfRank); at != std::string::npos) {
    line.erase(0, at + kOfRank.size());
  }
  // The launcher's own code also says what the report says.
  const auto told = read_launch_file(dir + "/" + kLaunchFileName);
  const auto* const launch = std::get_if<LaunchRecord>(&told);
  if (launch == nullptr) return;
  run.end.code = run.end.signal = 0;
  for (const LaunchedRank& rank : launch->ranks) {
    if (rank.stopped || (rank.code == 0 && rank.signal.empty())) continue;
    run.end.code = static_cast<int>(rank.code);
    run.end.signal = signal_number(rank.signal);
    break;
  }
}

std::string FaultTrials::own_fingerprints(std::string_view check) const {
  std::string known;
  for (const Finding& finding : base_.file->findings) {
    if (check.empty() || finding.id == check) known += ' ' + finding.fingerprint;
  }
  return known;
}

std::string FaultTrials::why_unchecked(std::string_view check) const {
  const RunRecord& run = base_.file->run;
  if (const auto blocked = run.blocked.find(std::string(check)); blocked != run.blocked.end()) {
    return blocked->second;
  }
  if (std::ranges::find(run.checks, check) == run.checks.end()) return "the settings leave it out";
  return "";
}

std::string FaultTrials::setting(const std::string& name) const {
  const auto& settings = base_.file->run.settings;
  const auto found = settings.find(name);
  return found == settings.end() ? "" : found->second.value;
}

Trial FaultTrials::run(const FaultRow& fault) {
  if (std::string why = why_unchecked(fault.check); !why.empty()) {
    return {.fault = &fault, .state = TrialState::kMissed, .why = "not checked: " + why};
  }
  const ScratchRun run = start(fault.name, fault.steps, own_fingerprints(fault.check));
  return judge_trial(fault, run, own_fingerprints());
}

}  // namespace ddpscope
