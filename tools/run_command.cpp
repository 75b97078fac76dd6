#include <fmt/format.h>
#include <string.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "checks/check_table.h"
#include "config/parser.h"
#include "config/resolve.h"
#include "records/launch_file.h"
#include "records/report_dir.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/launch_settings.h"
#include "tools/launch_signals.h"
#include "tools/launcher.h"
#include "tools/report_input.h"
#include "tools/report_output.h"

namespace ddpscope {
namespace {
struct RunArguments {
  int nproc = 1;
  std::string level;
  std::string out;
  int master_port = 0;
  std::string fail_on;
};

/// What the options, the variable `DDPSCOPE` and the `config_file` that it names say together.
struct RunSettings {
  bool off = false;
  std::string out;
  Severity fail_on = Severity::kError;
  std::string suppressions;
};

RunSettings read_settings(const RunArguments& options, const std::string& variable) {
  const CheckIds ids = check_setting_names();
  const Resolved resolved = resolve(variable, {}, ActivatedBy::kProgram, ids);
  if (!resolved.problems.empty()) {
    throw CommandError(ExitStatus::kUsage, resolved.problems.front().message);
  }
  RunSettings settings{.off = resolved.state == ResolvedState::kOff,
                       .out = resolved.settings.report_dir,
                       .fail_on = resolved.settings.fail_on,
                       .suppressions = resolved.settings.suppressions};
  if (options.out.empty() && settings.out.find('%') != std::string::npos) {
    throw CommandError(ExitStatus::kUsage,
                       "report_dir differs between ranks; name one folder with --out");
  }
  if (!options.out.empty()) settings.out = options.out;
  if (!options.fail_on.empty()) settings.fail_on = severity_of(options.fail_on);
  return settings;
}

std::string report_dir_pattern(const std::string& out) {
  std::string pattern;
  for (const char c : std::filesystem::absolute(out).string()) {
    if (c == '%') pattern += '%';
    pattern += c;
  }
  return pattern;
}

/// The variable `DDPSCOPE` of the ranks. Throws where it cannot carry the folder.
std::string rank_variable(const std::string& own, const RunArguments& options,
                          const RunSettings& settings) {
  std::vector<SettingOverride> overrides;
  if (!options.level.empty()) overrides.push_back({"level", options.level});
  overrides.push_back({"report_dir", report_dir_pattern(settings.out)});
  const std::string variable = with_overrides(own, overrides);
  const ParsedSettings parsed = parse_environment(variable, check_setting_names());
  if (!parsed.problems.empty()) {
    throw CommandError(ExitStatus::kUsage, "--out: " + parsed.problems.front().message);
  }
  if (parsed.settings.report_dir != overrides.back().value) {
    throw CommandError(ExitStatus::kUsage, "--out: report_dir cannot end in a blank");
  }
  return variable;
}

/// Returns the run id that the ranks get.
std::string set_diagnostics(ProcessEnvironment& environment, const std::string& variable) {
  environment.set("DDPSCOPE", variable);
  const std::string run_id = new_run_id();
  environment.set("DDPSCOPE_RUN_ID", run_id);
  environment.set(kLauncherVariable, "run");
  const auto executable = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  const auto preload = find_preload(executable, {"../" DDPSCOPE_TOOL_LIBDIR, "../lib", "."});
  if (preload.path.empty()) {
    say(preload.problem + "; only a program that calls attach_diagnostics is watched");
  } else {
    add_preload(environment, preload.path);
  }
  return run_id;
}

void share_cores(ProcessEnvironment& environment, int nproc) {
  if (nproc == 1 || environment.get("OMP_NUM_THREADS")) return;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const auto threads = std::to_string(std::max(1, cores / nproc));
  environment.set("OMP_NUM_THREADS", threads);
  say(fmt::format("OMP_NUM_THREADS={} for each of {} ranks; set it to choose", threads, nproc));
}

FileDescriptor open_out(const std::string& out) {
  const auto error = move_aside(out);
  if (!error.empty()) throw CommandError(ExitStatus::kUsage, "--out: " + error);
  auto opened = open_report_dir(out);
  if (!opened.error.empty()) throw CommandError(ExitStatus::kUsage, "--out: " + opened.error);
  return std::move(opened.fd);
}

/// 127 and 126 as a shell gives them.
int report_start_error(const std::string& program, int error) {
  say(fmt::format("error: cannot start {}: {}", program, ::strerror(error)));
  return error == ENOENT ? 127 : 126;
}

/// Leaves for the merge what the ranks could not write themselves.
void note_ends(const RunSettings& settings, const std::string& run_id, const LaunchResult& result) {
  LaunchRecord launch{.run_id = run_id, .ranks = {}};
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    const RankEnd& end = result.ranks[rank];
    if (end.ended_unix_ns == 0) continue;  // abandoned
    launch.ranks.push_back({.rank = static_cast<std::int64_t>(rank),
                            .code = end.code,
                            .signal = end.signal != 0 ? signal_name(end.signal) : "",
                            .ended_unix_ns = end.ended_unix_ns,
                            .stopped = end.stopped});
  }
  const auto error = write_launch_file(settings.out, launch);
  if (!error.empty()) say(error + "; the report does not know how the ranks ended");
}

/// The rank that failed first: as the ranks' own clock tells, else as the launcher saw it.
std::optional<std::size_t> first_failure(const JudgedReport& judged, const LaunchResult& result) {
  for (const Finding& finding : judged.report.findings) {
    const auto rank = static_cast<std::size_t>(finding.rank);
    const bool is_it = finding.id == "rank-first-failure" && finding.severity == Severity::kError;
    if (is_it && rank < result.ranks.size() && result.ranks[rank].failed()) return rank;
  }
  return result.first_failure;
}

/// The program's own code: that of the rank that failed first.
int report_failure(std::optional<std::size_t> rank, const LaunchResult& result) {
  if (!rank) return 0;
  const auto& end = result.ranks[*rank];
  if (result.ended_by != 0) {
    say(fmt::format("the run was ended by {}, which ddpscope run was given",
                    signal_words(result.ended_by)));
    return end.exit_code();
  }
  say(describe_failure(*rank, end));
  if (!end.last_error_line.empty()) say("  its last error line: " + end.last_error_line);
  return end.exit_code();
}

/// What cannot be read or written must not hide the program's own code.
template <class Act>
std::optional<CommandError> problem_of(Act&& act) {
  try {
    act();
  } catch (const CommandError& error) {
    return error;
  }
  return std::nullopt;
}

/// Prints the verdict and gives the exit code.
int judge(const RunSettings& settings, const LaunchResult& result) {
  if (settings.off) {
    const int code = report_failure(result.first_failure, result);
    say("DDPSCOPE says off: the ranks ran undiagnosed");
    return code;
  }
  JudgedReport judged;
  auto problem = problem_of([&] { judged = read_reports({settings.out}, settings.suppressions); });
  const int program_code = report_failure(first_failure(judged, result), result);
  const auto code_or = [program_code](int ours) { return program_code != 0 ? program_code : ours; };
  if (!problem && judged.files == 0 && judged.unusable.empty()) {
    say(fmt::format("no rank wrote a record into {}; nothing was diagnosed", settings.out));
    return code_or(static_cast<int>(ExitStatus::kIncomplete));
  }
  if (!problem) {
    problem = problem_of([&] {
      require_files(judged, settings.out);
      publish(judged.report, {settings.out + "/report.html", settings.out + "/report.json"});
    });
  }
  if (!problem) return code_or(judged_exit_code(judged, settings.fail_on));
  say(fmt::format("error: {}", problem->what()));
  return code_or(static_cast<int>(problem->status()));
}

/// Another program may take the port before a rank does.
void tell_of_port(const LaunchResult& result, int chosen) {
  const auto lost_it = [](const auto& end) {
    const std::string& line = end.last_error_line;
    return line.find("EADDRINUSE") != std::string::npos ||
           line.find("ddress already in use") != std::string::npos;
  };
  if (std::ranges::none_of(result.ranks, lost_it)) return;
  say(
      fmt::format("port {} was free when it was chosen, and is taken now: run again, or name one "
                  "with --master-port",
                  chosen));
}

int run_program(const RunArguments& options, const CommandContext& context) {
  if (context.program.empty()) {
    throw CommandError(ExitStatus::kUsage,
                       "no program is named: ddpscope run [options] -- PROG ARGS");
  }
  auto environment = context.environment;
  std::string variable = environment.get("DDPSCOPE").value_or("");
  const auto settings = read_settings(options, variable);
  if (!settings.off) variable = rank_variable(variable, options, settings);
  const auto out = open_out(settings.out);
  std::string run_id;
  if (!settings.off) run_id = set_diagnostics(environment, variable);
  share_cores(environment, options.nproc);
  const auto port = options.master_port != 0 ? options.master_port : free_port();
  const LaunchPlan plan{.argv = context.program,
                        .environments = rank_environments({environment, options.nproc, port}),
                        .log_dir = out.get(),
                        .times = {}};
  const auto result = launch(plan);
  if (result.start_error != 0) return report_start_error(plan.argv.front(), result.start_error);
  if (!settings.off) note_ends(settings, run_id, result);
  const int code = judge(settings, result);
  if (options.master_port == 0) tell_of_port(result, port);
  return code;
}
}  // namespace

CommandAction make_run_command(CLI::App& app) {
  const auto options = std::make_shared<RunArguments>();
  app.add_option("--nproc", options->nproc, "Number of ranks; default 1")
      ->check(CLI::Range(1, 1024));
  app.add_option("--level", options->level, "What is looked at: watch, values or stacks")
      ->check(CLI::IsMember({"watch", "values", "stacks"}));
  app.add_option("--out", options->out, "Report folder; default: ddpscope-report");
  app.add_option("--master-port", options->master_port, "MASTER_PORT; default: a free port")
      ->check(CLI::Range(1, 65535));
  app.add_option("--fail-on", options->fail_on,
                 "Least severity that makes the exit code 1: error, warning or note");
  app.footer(
      "The program and its arguments stand behind --: ddpscope run --nproc 2 -- ./train --epochs "
      "3. "
      "Each rank gets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT and, of several "
      "where it is not set, OMP_NUM_THREADS: its share of the cores. "
      "Returns the program's own code if that is not 0 (128+n for a signal), else 0 clean, "
      "1 findings, 4 incomplete.");
  return [options](const CommandContext& context) { return run_program(*options, context); };
}

}  // namespace ddpscope
