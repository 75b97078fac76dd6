#include "tools/fault_trials.h"

#include <algorithm>
#include <set>

#include "checks/check_table.h"
#include "tests/support/catch.h"

namespace ddpscope::test::fault_trials_test {
namespace {
const FaultRow kRow = {.name = "planted",
                       .check = "grad-missing",
                       .steps = 10,
                       .what = "something",
                       .needs = "batch norm"};

Finding finding_of(const std::string& id, std::int64_t step, const std::string& fingerprint) {
  Finding finding;
  finding.id = id;
  finding.step = step;
  finding.fingerprint = fingerprint;
  return finding;
}

/// A process that trained on for 12 steps after a fault in step 9.
ScratchRun watched_run(Findings findings) {
  ScratchRun run;
  run.fault = {.fault = "planted", .steps = 21, .planted_step = 9, .ended = true};
  run.file.emplace();
  run.file->findings = std::move(findings);
  return run;
}

TEST_CASE("every fault names a check that there is, and has a name of its own", "[tools]") {
  std::set<std::string_view> names;
  for (const FaultRow& row : kFaults) {
    INFO(row.name);
    CHECK(find_check(row.check) != nullptr);
    CHECK(find_fault(row.name) == &row);
    CHECK(names.insert(row.name).second);
    CHECK(row.steps > 0);
  }
  CHECK(find_fault("none") == nullptr);
}

TEST_CASE("a fault is caught by a finding of its check, so many steps later", "[tools]") {
  auto run = watched_run({finding_of("grad-missing", 12, "a")});
  run.fault.found_steps = 13;
  const Trial trial = judge_trial(kRow, run, "");
  CHECK(trial.state == TrialState::kCaught);
  CHECK(trial.latency_steps == 4);
  CHECK(trial.finding.fingerprint == "a");
}

TEST_CASE("where the fault ended the process the finding's own step counts", "[tools]") {
  auto run = watched_run({finding_of("grad-missing", 9, "a")});
  run.end.code = 2;
  const Trial trial = judge_trial(kRow, run, "");
  CHECK(trial.state == TrialState::kCaught);
  CHECK(trial.latency_steps == 0);
}

TEST_CASE("a finding that the program has anyway catches nothing", "[tools]") {
  const auto run =
      watched_run({finding_of("grad-missing", 3, "own"), finding_of("optim-empty", 10, "b")});
  const Trial trial = judge_trial(kRow, run, " other own");
  CHECK(trial.state == TrialState::kMissed);
  CHECK(trial.why == "not found in 13 steps; found instead: optim-empty");
}

TEST_CASE("a finding that is suppressed catches nothing", "[tools]") {
  auto run = watched_run({finding_of("grad-missing", 9, "a")});
  run.file->findings.front().suppressed = true;
  const Trial trial = judge_trial(kRow, run, "");
  CHECK(trial.state == TrialState::kMissed);
  CHECK(trial.why == "not found in 13 steps; found instead: grad-missing (suppressed)");
}

TEST_CASE("a missed fault tells how little the budget let its check see", "[tools]") {
  auto run = watched_run({});
  run.file->summary.emplace().overhead["grad-missing"].coverage = 0.25;
  CHECK(judge_trial(kRow, run, "").why ==
        "not found in 13 steps; the budget let it see 25 % of the steps after the first ones");
}

TEST_CASE("a fault that found no place is not missed", "[tools]") {
  auto run = watched_run({});
  run.fault.planted_step.reset();
  const Trial trial = judge_trial(kRow, run, "");
  CHECK(trial.state == TrialState::kMisfit);
  CHECK(trial.why == "the program has no batch norm");
}

TEST_CASE("a process that ended too early leaves a fault undecided", "[tools]") {
  auto run = watched_run({});
  SECTION("before it was planted") {
    run.fault.planted_step.reset();
    run.fault.ended = false;
    run.end.code = 3;
    run.end.last_error_line = "no data";
    const Trial trial = judge_trial(kRow, run, "");
    CHECK(trial.state == TrialState::kUndecided);
    CHECK(trial.why == "the program ended before the fault: exit code 3: no data");
  }
  SECTION("before it could be found") {
    run.fault.steps = 11;
    const Trial trial = judge_trial(kRow, run, "");
    CHECK(trial.state == TrialState::kUndecided);
    CHECK(trial.why == "not found in 3 steps; 10 may be needed");
  }
  SECTION("because its steps took too long") {
    run.fault.planted_step.reset();
    run.fault.ended = false;
    run.fault.timed_out = true;
    CHECK(judge_trial(kRow, run, "").why ==
          "the program ended before the fault: its time was over");
  }
  SECTION("because it hung") {
    run.fault.steps = 9;
    run.end.timed_out = true;
    const Trial trial = judge_trial(kRow, run, "");
    CHECK(trial.state == TrialState::kUndecided);
    CHECK(trial.why == "not found in 1 step; 10 may be needed; its time was over");
  }
}

TEST_CASE("a fault that brought the process down unseen is missed", "[tools]") {
  auto run = watched_run({});
  run.fault.steps = 9;
  run.end.signal = 11;
  const Trial trial = judge_trial(kRow, run, "");
  CHECK(trial.state == TrialState::kMissed);
  CHECK(trial.why == "not found when the program ended: killed by SIGSEGV (signal 11)");
}
}  // namespace
}  // namespace ddpscope::test::fault_trials_test
