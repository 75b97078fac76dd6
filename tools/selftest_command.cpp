#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "checks/check_table.h"
#include "config/resolve.h"
#include "model/rank_words.h"
#include "records/record_json.h"
#include "report/escape.h"
#include "report/wording.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/fault_trials.h"
#include "tools/launch_settings.h"
#include "tools/progress_line.h"
#include "tools/report_input.h"

namespace ddpscope {
namespace {
struct SelftestArguments {
  std::string level;
  std::vector<std::string> faults;
  int nproc = 1;
  std::int64_t after = 8;
  std::int64_t seconds = 60;
  bool list = false;
  bool json = false;
};

/// A folder of our own that is gone afterwards.
class ScratchDir {
 public:
  ScratchDir() : path_(parent() + "/ddpscope-selftest-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw CommandError(ExitStatus::kUsage, "no scratch folder can be made as " + path_);
    }
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  static std::string parent() {
    std::error_code error;
    const auto path = std::filesystem::temp_directory_path(error);
    if (error) throw CommandError(ExitStatus::kUsage, "TMPDIR is no folder: " + error.message());
    return path.string();
  }
  std::string path_;
};

/// `DDPSCOPE` as the user has it, without what would end a process early or write elsewhere.
std::string scratch_settings(const std::string& variable, const std::string& level) {
  const CheckIds ids = check_setting_names();
  const Resolved resolved = resolve(variable, {}, ActivatedBy::kProgram, ids);
  if (!resolved.problems.empty()) {
    throw CommandError(ExitStatus::kUsage, resolved.problems.front().message);
  }
  if (resolved.state == ResolvedState::kOff)
    throw CommandError(ExitStatus::kUsage, "DDPSCOPE says off: nothing is caught");
  std::vector<SettingOverride> overrides = {
      {"console", "quiet"}, {"exit_code", "0"}, {"halt_on", "none"}, {"metrics_file", ""}};
  if (!level.empty()) overrides.push_back({"level", level});
  return with_overrides(variable, overrides);
}

TrialPlan plan_of(const SelftestArguments& options, const CommandContext& context) {
  TrialPlan plan{.argv = context.program,
                 .environment = context.environment,
                 .after = options.after,
                 .seconds = options.seconds,
                 .ranks = options.nproc};
  plan.environment.set(
      "DDPSCOPE", scratch_settings(plan.environment.get("DDPSCOPE").value_or(""), options.level));
  const auto executable = std::filesystem::read_symlink("/proc/self/exe");
  plan.launcher = executable.string();
  const auto preload =
      find_preload(executable.parent_path().string(), {"../" DDPSCOPE_TOOL_LIBDIR, "../lib", "."});
  if (preload.path.empty()) throw CommandError(ExitStatus::kUsage, preload.problem);
  if (plan.ranks == 1)
    add_preload(plan.environment, preload.path);  // of several, the launcher does
  return plan;
}

/// Those of one rank, or those between ranks.
std::vector<const FaultRow*> chosen_faults(const std::vector<std::string>& names, int ranks) {
  for (const std::string& name : names) {
    const FaultRow* const row = find_fault(name);
    if (row == nullptr) {
      throw CommandError(ExitStatus::kUsage,
                         "--fault: " + name + " is none; ddpscope selftest --list names them");
    }
    if (row->is_between_ranks() == (ranks > 1)) continue;
    throw CommandError(ExitStatus::kUsage, fmt::format("--fault: {} takes {}", name,
                                                       ranks > 1 ? "one rank: no --nproc"
                                                                 : "several ranks: --nproc 2"));
  }
  std::vector<const FaultRow*> chosen;
  for (const FaultRow& row : kFaults) {
    if (row.is_between_ranks() != (ranks > 1)) continue;
    if (names.empty() || std::ranges::count(names, row.name) > 0) chosen.push_back(&row);
  }
  return chosen;
}

std::string_view state_word(TrialState state) {
  switch (state) {
    case TrialState::kCaught:
      return "caught";
    case TrialState::kMissed:
      return "missed";
    case TrialState::kMisfit:
      return "no place";
    case TrialState::kUndecided:
      break;
  }
  return "undecided";
}

std::string result_of(const Trial& trial) {
  if (trial.state != TrialState::kCaught) return escape_terminal(trial.why);
  const std::string place = escape_terminal(place_of(trial.finding, /*with_model=*/false));
  const std::string after =
      trial.latency_steps == 0 ? "in its step" : counted(trial.latency_steps, "step") + " later";
  return place.empty() ? after : after + ", " + place;
}

std::string line_of(const Trial& trial) {
  const CheckRow* check = find_check(trial.fault->check);
  return fmt::format("{:<26} {:<27} {:<7} {:<9} {}\n", trial.fault->name, trial.fault->check,
                     level_name(check->level), state_word(trial.state), result_of(trial));
}

std::size_t count_of(const std::vector<Trial>& trials, TrialState state) {
  return static_cast<std::size_t>(std::ranges::count(trials, state, &Trial::state));
}

std::string verdict(const std::vector<Trial>& trials, const FaultTrials& runs) {
  const std::size_t misfits = count_of(trials, TrialState::kMisfit);
  return fmt::format(
      "ddpscope: {} of {} faults caught, {} missed, {} undecided; {} have no place in this "
      "program; level {}, overhead up to {} %{}\n",
      count_of(trials, TrialState::kCaught), trials.size() - misfits,
      count_of(trials, TrialState::kMissed), count_of(trials, TrialState::kUndecided), misfits,
      runs.setting("level"), runs.setting("overhead"),
      runs.step_ms() > 0 ? fmt::format(", {:.1f} ms per step", runs.step_ms()) : "");
}

std::string as_json(const std::vector<Trial>& trials, const FaultTrials& runs) {
  nlohmann::ordered_json json = {{"level", runs.setting("level")},
                                 {"overhead", runs.setting("overhead")},
                                 {"step_ms", nullptr},
                                 {"own_findings", runs.own_findings()},
                                 {"faults", nlohmann::ordered_json::array()}};
  if (runs.step_ms() > 0) json["step_ms"] = runs.step_ms();
  for (const Trial& trial : trials) {
    nlohmann::ordered_json row = {{"fault", trial.fault->name},
                                  {"what", trial.fault->what},
                                  {"check", trial.fault->check},
                                  {"level", level_name(find_check(trial.fault->check)->level)},
                                  {"state", state_word(trial.state)}};
    if (trial.state == TrialState::kCaught) {
      row["latency_steps"] = trial.latency_steps;
      row["finding"] = to_json(trial.finding);
      row["finding"].erase("record");
    } else {
      row["why"] = trial.why;
    }
    json["faults"].push_back(std::move(row));
  }
  return json.dump(2, ' ', /*ensure_ascii=*/true) + "\n";
}

int list_faults(bool as_json) {
  std::string text;
  auto json = nlohmann::ordered_json::array();
  for (const FaultRow& row : kFaults) {
    text += fmt::format("{:<26} {:<27} {}{}\n", row.name, row.check, row.what,
                        row.is_between_ranks() ? " (--nproc 2)" : "");
    json.push_back({{"fault", row.name},
                    {"what", row.what},
                    {"check", row.check},
                    {"between_ranks", row.is_between_ranks()}});
  }
  print(as_json ? json.dump(2, ' ', /*ensure_ascii=*/true) + "\n" : text);
  return 0;
}

int selftest(const SelftestArguments& options, const CommandContext& context) {
  if (options.list) return list_faults(options.json);
  if (context.program.empty()) {
    throw CommandError(ExitStatus::kUsage,
                       "no program is named: ddpscope selftest [options] -- PROG ARGS");
  }
  const auto chosen = chosen_faults(options.faults, options.nproc);
  const TrialPlan plan = plan_of(options, context);
  const ScratchDir scratch;
  FaultTrials runs(plan, scratch.path());
  std::vector<Trial> trials;
  ProgressLine line("faults");
  for (const FaultRow* fault : chosen) {
    trials.push_back(runs.run(*fault));
    if (!options.json) print(line_of(trials.back()));
    line.tell(trials.size(), chosen.size());
  }
  print(options.json ? as_json(trials, runs) : verdict(trials, runs));
  if (count_of(trials, TrialState::kMissed) > 0) return static_cast<int>(ExitStatus::kFindings);
  const bool is_complete =
      count_of(trials, TrialState::kUndecided) == 0 && count_of(trials, TrialState::kCaught) > 0;
  return static_cast<int>(is_complete ? ExitStatus::kClean : ExitStatus::kIncomplete);
}
}  // namespace

CommandAction make_selftest_command(CLI::App& app) {
  const auto options = std::make_shared<SelftestArguments>();
  app.add_option("--level", options->level, "What is looked at: watch, values or stacks")
      ->check(CLI::IsMember({"watch", "values", "stacks"}));
  app.add_option("--fault", options->faults, "Only this fault of --list; may be given again")
      ->type_name("NAME");
  app.add_option("--nproc", options->nproc,
                 "Start so many ranks, and plant the faults between ranks; default 1")
      ->check(CLI::Range(1, 64));
  app.add_option("--after", options->after, "Steps before a fault that begins midway; default 8")
      ->check(CLI::Range(1, 100000));
  app.add_option("--seconds", options->seconds, "Limit for each start of the program; default 60")
      ->check(CLI::Range(1, 86400));
  app.add_flag("--list", options->list, "Print the faults, start nothing");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "PROG and its arguments stand behind --. Starts PROG once as it is and once for each fault, "
      "as one rank or as --nproc many, here and "
      "with these arguments; one rank ends within a step once the fault was found. Reports go to a "
      "scratch folder; "
      "files that PROG itself writes are written each time. Returns 0 if every fault that has a "
      "place in PROG was caught, 1 if one was missed, 4 if one could not be tried.");
  return [options](const CommandContext& context) { return selftest(*options, context); };
}

}  // namespace ddpscope
