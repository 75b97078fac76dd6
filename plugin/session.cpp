#include "plugin/session.h"

#include <torch/version.h>

#include <mutex>

#include "checks/check_table.h"
#include "config/glob.h"
#include "config/setting_table.h"
#include "config/setting_types.h"
#include "config/text.h"
#include "hooks/device_gradients.h"
#include "hooks/device_memory.h"
#include "hooks/loop_phase.h"
#include "hooks/op_callbacks.h"
#include "hooks/sources.h"
#include "model/clock.h"
#include "plugin/crash_note.h"
#include "plugin/exchange_store.h"
#include "plugin/held_signals.h"
#include "plugin/log.h"
#include "plugin/planted_fault.h"
#include "plugin/process_life.h"
#include "plugin/public_api.h"
#include "plugin/run_info.h"
#include "plugin/session_settings.h"
#include "plugin/sync_norms.h"
#include "records/error_file.h"
#include "records/launch_file.h"
#include "records/words.h"

namespace ddpscope {
namespace {
constexpr auto kExitLimit = std::chrono::milliseconds(10'000);
constexpr auto kNoteLimit = std::chrono::milliseconds(200);
constexpr auto kTerminateLimit = std::chrono::milliseconds(10'000);

constinit std::atomic<Session*> session{nullptr};
std::mutex start_mutex;
std::atomic<int> said_rank{-1};
std::atomic<int> said_world_size{-1};

/// On this thread: an exception of LibTorch meanwhile would ask for a session, too, and wait for
/// itself.
class Starting {
 public:
  Starting() { here() = true; }
  ~Starting() { here() = false; }
  Starting(const Starting&) = delete;
  Starting& operator=(const Starting&) = delete;
  static bool is_here() { return here(); }

 private:
  static bool& here() {
    static thread_local bool starts = false;
    return starts;
  }
};

RankEnvironment ranks_of_process() {
  RankEnvironment ranks = rank_environment();
  for (const std::string& message : ranks.messages) log_warning(message);
  if (said_world_size.load() > 0) {
    ranks.rank = said_rank.load();
    ranks.world_size = said_world_size.load();
  }
  return ranks;
}

WorkerOptions worker_options(const Resolved& resolved, std::map<std::string, std::string> sources,
                             bool preloaded) {
  WorkerOptions options;
  options.settings = resolved.settings;
  const RankEnvironment ranks = ranks_of_process();
  options.run = describe_run(ranks, options.settings);
  options.devices = {.identify = identify_device, .memory = read_device_memory};
  options.local_ranks = ranks.local_world_size;
  const std::string& named = options.settings.report_dir;
  options.has_own_folder = named.find("%r") != named.npos || named.find("%p") != named.npos;
  options.launched = environment(kLauncherVariable).has_value();
  options.takes_turns = true;
  options.run.torch_version = TORCH_VERSION;
  options.run.sources = std::move(sources);
  options.where = &Session::position;
  options.store = store_access(options.settings.exchange);
  const std::string dir = expand_report_dir(options.settings.report_dir, options.run.rank,
                                            options.run.pid, options.run.host);
  options.settings.report_dir = preloaded ? path_from_start(dir) : absolute_path(dir);
  add_coverage(options.run, options.settings);
  options.judge = {.rank = options.run.rank,
                   .world_size = options.run.world_size,
                   .level = static_cast<CheckLevel>(options.settings.level),
                   .checks = options.settings.checks};
  for (const auto& [source, state] : options.run.sources) {
    if (state != "absent") options.judge.sources.insert(source);
  }
  return options;
}

WorkerOptions with_sites(WorkerOptions options, SiteSource& sites) {
  options.judge.sites = &sites;
  return options;
}

StackTable* stacks_at(Level level, StackSites& sites) {
  return level == Level::kWatch ? nullptr : &sites.table();
}
}  // namespace

Session::Session(Resolved resolved, WorkerOptions options)
    : settings_(std::move(resolved.settings)),
      worker_(with_sites(std::move(options), sites_)),
      capture_(worker_, {.values = settings_.level != Level::kWatch,
                         .history = static_cast<std::size_t>(settings_.history),
                         .stacks = stacks_at(settings_.level, sites_),
                         .thrown = &sites_.table(),
                         .stack_depth = static_cast<std::size_t>(settings_.stack_depth),
                         .overhead_percent = settings_.overhead,
                         .full_cycles = settings_.full_cycles,
                         .waits_for_targets = waits_for_targets(settings_),
                         .calls = worker_.calls(),
                         .compares_ranks = worker_.calls() != nullptr}) {}

bool Session::start(const OptionTexts& options, bool only_by_environment) {
  if (Starting::is_here()) return true;
  const Starting starting;
  const HeldSignals held;
  const std::lock_guard lock(start_mutex);
  if (is_switched_off()) return false;
  const PartialSettings given = given_settings(options);
  if (session.load() != nullptr) {
    const Session* current = running();
    if (current != nullptr) tell_unused_options(current->settings_, given);
    return current != nullptr;
  }
  const auto activated_by = only_by_environment ? ActivatedBy::kEnvironment : ActivatedBy::kProgram;
  Resolved resolved = resolve_settings(given, activated_by);
  if (resolved.state != ResolvedState::kOn) return false;
  if (resolved.help_requested) std::fputs(settings_help().c_str(), stderr);
  set_log_level(resolved.settings.log_level);
  if (const std::string mismatch = torch_mismatch(); !mismatch.empty()) {
    log_error(mismatch + ". Training continues undiagnosed.");
    return false;
  }
  WorkerOptions worker = worker_options(resolved, install_sources(), only_by_environment);
  start_operators(resolved.settings, worker.run.world_size);
  auto* made = new Session(std::move(resolved), std::move(worker));
  made->worker_.start();
  watch_process_life();
  if (made->settings_.halt_on != HaltOn::kNone) made->capture_.set_halt(&throw_if_halted);
  session.store(made);
  tell_refused_hooks(made->capture_);
  Capture::set_active(&made->capture_);
  survey_operators(true);
  plant_fault_if_asked();
  return true;
}

Session* Session::running() noexcept {
  Session* current = session.load(std::memory_order_acquire);
  if (current == nullptr || current->finished_.load() || current->abandoned_.load()) return nullptr;
  return current;
}

void Session::throw_if_halted() {
  Session* current = running();
  if (current == nullptr) return;
  const bool on_warning = current->settings_.halt_on == HaltOn::kWarning;
  if (!current->worker_.has_at_least(on_warning ? Severity::kWarning : Severity::kError)) return;
  current->worker_.drain(kTerminateLimit);
  throw_halt_error("ddpscope: halt_on: " + current->worker_.first_line_of_worst());
}

// What a device has told by now.
void Session::take_late_values() noexcept {
  as_guest("device_value", [](Capture& capture) { device_gradients().tell(capture); });
}

void Session::drain() {
  take_late_values();
  worker_.drain(kExitLimit);
}

LoopPosition Session::position() noexcept {
  const Session* last = session.load(std::memory_order_acquire);
  const std::int64_t steps = last == nullptr ? 0 : last->capture_.marker().completed_steps();
  return {.step = steps + 1,
          .phase = LoopPhase::now(),
          .layers = hook_state.layers.load(std::memory_order_relaxed)};
}

ProgressRecord Session::progress(const char* reason) const {
  const std::int64_t step = capture_.marker().completed_steps() + 1;
  return {.step = step, .phase = LoopPhase::now(), .reason = reason, .time_unix_ns = unix_ns()};
}

void Session::finish(int exit_code) noexcept {
  if (abandoned_.load() || finished_.exchange(true)) return;
  const HeldSignals held;
  try {
    ProgressRecord record = progress("exit");
    signals_at_exit();
    if (exit_code != 0) {
      record.code = exit_code;
      record.what = "exit code " + std::to_string(exit_code);
      worker_.write_progress(std::move(record));
    }
    take_late_values();
    end_sync_norms();
    Capture::set_active(nullptr);
    survey_operators(false);
    summarize(exit_code == 0);
    worker_.stop_exchange();
    if (worker_.has_at_least(settings_.fail_on)) exit_code_ = static_cast<int>(settings_.exit_code);
  } catch (...) {  // our fault never becomes the program's
  }
}

void Session::summarize(bool clean_exit) {
  const auto percent = [](const Capture::Spent& spent) -> std::optional<double> {
    if (spent.wall_ms <= 0) return std::nullopt;
    return 100 * spent.hooks_ms / spent.wall_ms;
  };
  const Capture::Spent all = capture_.spent();
  const Capture::Spent first = capture_.spent_first();
  const Capture::Spent rest{.wall_ms = all.wall_ms - first.wall_ms,
                            .hooks_ms = all.hooks_ms - first.hooks_ms};
  const char* fault = capture_.faulted_source();
  const CostGovernor governor = capture_.governor();
  const CostGovernor::Coverage& coverage = governor.coverage();
  worker_.finish(kExitLimit,
                 {.wall_ms = all.wall_ms,
                  .steps = capture_.marker().completed_steps(),
                  .full_cycles = settings_.full_cycles,
                  .structure_every = governor.structure_every(),
                  .values_every = governor.values_every(),
                  .coverage = coverage,
                  .difference = governor.difference(),
                  .overhead_percent = coverage.cycles > 0 ? percent(rest) : std::nullopt,
                  .overhead_percent_first = percent(first),
                  .faulted_source = fault != nullptr ? fault : "",
                  .clean_exit = clean_exit});
}

void Session::die(const UncaughtException& exception) noexcept {
  if (abandoned_.load() || finished_.load()) return;
  const HeldSignals held;
  try {
    ProgressRecord record = progress("exception");
    record.what = exception.text;
    record.exception = exception.type;
    // What the worker has not seen yet names the place; the launcher may end us any moment.
    worker_.drain(kNoteLimit);
    worker_.write_progress(record);
    crash_note::close();  // the abort that follows is no news
    if (const auto path = environment("TORCHELASTIC_ERROR_FILE")) {
      write_error_file(*path, {.message = exception.type + ": " + exception.text,
                               .place = "ddpscope: in phase " + std::string(word(record.phase)) +
                                        " of step " + std::to_string(record.step),
                               .unix_seconds = record.time_unix_ns / 1'000'000'000});
    }
    worker_.put(ExitEvent{.at = capture_.marker().now()});
    const bool is_judged = worker_.drain(kTerminateLimit);
    // What the other ranks wait for may be another call because of the gradients of this step.
    if (is_judged && record.phase == Phase::kReduce) worker_.settle();
    worker_.write_overdue_progress();
  } catch (...) {
  }
}

void override_ranks(int rank, int world_size) noexcept {
  said_rank = rank;
  said_world_size = world_size;
}

}  // namespace ddpscope
