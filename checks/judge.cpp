#include "checks/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <tuple>
#include <utility>

#include "checks/cause_links.h"
#include "checks/disabled_text.h"
#include "config/glob.h"
#include "model/fact_keys.h"
#include "model/fingerprint.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kCostSampling = 16;
constexpr std::size_t kMaxKept = 4096;

/// Empty if every source that the check cannot do without delivers.
std::string why_blocked(const CheckRow& row, const JudgeOptions& options) {
  if (row.level > options.level) return fmt::format("needs level {}", level_name(row.level));
  std::string missing;
  for (const std::string_view need : split_list(row.needs)) {
    if (need.ends_with('?') || options.sources.contains(std::string(need))) continue;
    missing += fmt::format("{}{}", missing.empty() ? "source not live: " : ", ", need);
  }
  return missing;
}

/// It judges gradients or updates: of a program that ends no step it sees nothing.
bool needs_steps(const CheckRow& row) {
  return std::ranges::any_of(split_list(row.needs), [](std::string_view need) {
    return need == "gradient" || need == "optimizer";
  });
}

bool is_round(std::int64_t occurrences) {
  return occurrences == 10 || occurrences == 100 || occurrences == 1000;
}

std::ptrdiff_t complete_sites(const Finding& finding) {
  return std::ranges::count_if(finding.sites, [](const Site& site) {
    return site.state == SiteState::kComplete && !site.frames.empty();
  });
}

/// The first occurrence is told, unless a later one weighs more. Costs are those of the newest
/// window.
bool is_told_instead(const Finding& repeat, const Finding& kept) {
  const auto weight = [](const Finding& finding) {
    return std::tuple(finding.severity, finding.confidence, finding.evidence_status);
  };
  if (repeat.id.starts_with("perf-")) return repeat.severity >= kept.severity;
  return weight(repeat) > weight(kept);
}

/// What a repetition tells, and what it adds where the occurrence before remains.
void add_repetition(Finding& kept, Finding&& repeat) {
  repeat.first_step = kept.first_step;
  repeat.occurrences = kept.occurrences + 1;
  if (repeat.caused_by.empty()) {
    repeat.caused_by = kept.caused_by;
    repeat.causal_role = kept.causal_role;
  }
  if (is_told_instead(repeat, kept)) {
    kept = std::move(repeat);
    return;
  }
  kept.last_step = repeat.last_step;
  kept.occurrences = repeat.occurrences;
  kept.caused_by = std::move(repeat.caused_by);
  kept.causal_role = repeat.causal_role;
  if (complete_sites(repeat) > complete_sites(kept)) kept.sites = std::move(repeat.sites);
}

struct Dispatch {
  Check& check;
  const RunState& state;
  Findings& findings;

  void on(const TreeEvent& e) { check.on_tree(e, state, findings); }
  void on(const OpEvent& e) { check.on_op(e, state, findings); }
  void on(const BackwardEvent& e) { check.on_backward(e, state, findings); }
  void on(const BackwardEndEvent& e) { check.on_backward_end(e, state, findings); }
  void on(const GradientEvent& e) { check.on_gradient(e, state, findings); }
  void on(const OptimizerMembersEvent& e) { check.on_optimizer_members(e, state, findings); }
  void on(const OptimizerStepEvent& e) { check.on_optimizer_step(e, state, findings); }
  void on(const ZeroGradEvent& e) { check.on_zero_grad(e, state, findings); }
  void on(const CycleEndEvent& e) { check.on_cycle_end(e, state, findings); }
  void on(const ErrorEvent& e) { check.on_error(e, state, findings); }
  void on(const OperatorFailedEvent& e) { check.on_operator_failed(e, state, findings); }
  void on(const TrainingOpEvent& e) { check.on_training_op(e, state, findings); }
  void on(const JudgedOutputEvent& e) { check.on_judged_output(e, state, findings); }
  void on(const ZeroGradientsEvent& e) { check.on_zero_gradients(e, state, findings); }
  void on(const ArchiveTensorEvent& e) { check.on_archive_tensor(e, state, findings); }
  void on(const QuietBufferEvent& e) { check.on_quiet_buffer(e, state, findings); }
  void on(const HookRefusedEvent& e) { check.on_hook_refused(e, state, findings); }
  void on(const StaleSavedEvent& e) { check.on_stale_saved(e, state, findings); }
  void on(const FailedWriteEvent& e) { check.on_failed_write(e, state, findings); }
  void on(const GraphFreedEvent& e) { check.on_graph_freed(e, state, findings); }
  void on(const NestedBackwardEvent& e) { check.on_nested_backward(e, state, findings); }
  void on(const NonfiniteOutputEvent& e) { check.on_nonfinite_output(e, state, findings); }
  void on(const LossEvent& e) { check.on_loss(e, state, findings); }
  void on(const NonfiniteGradientEvent& e) { check.on_nonfinite_gradient(e, state, findings); }
  void on(const GradientsRepairedEvent& e) { check.on_gradients_repaired(e, state, findings); }
  void on(const GradientsSpoiltEvent& e) { check.on_gradients_spoilt(e, state, findings); }
  void on(const ScaledCopyEvent& e) { check.on_scaled_copy(e, state, findings); }
  void on(const SpoiltStepEvent& e) { check.on_spoilt_step(e, state, findings); }
  void on(const NonfiniteNodeEvent& e) { check.on_nonfinite_node(e, state, findings); }
  void on(const RiskyInputEvent& e) { check.on_risky_input(e, state, findings); }
  void on(const HalfOutputEvent& e) { check.on_half_output(e, state, findings); }
  void on(const GradientValuesEvent& e) { check.on_gradient_values(e, state, findings); }
  void on(const OutOfRangeEvent& e) { check.on_out_of_range(e, state, findings); }
  void on(const LossInputEvent& e) { check.on_loss_input(e, state, findings); }
  void on(const GradientsScaledEvent& e) { check.on_gradients_scaled(e, state, findings); }
  void on(const BatchEvent& e) { check.on_batch(e, state, findings); }
  void on(const BatchRequestEvent& e) { check.on_batch_request(e, state, findings); }
  void on(const ParameterUpdatesEvent& e) { check.on_parameter_updates(e, state, findings); }
  void on(const StepWaitEvent& e) { check.on_step_wait(e, state, findings); }
  void on(const HostCountsEvent& e) { check.on_host_counts(e, state, findings); }
  void on(const KeptOutputsEvent& e) { check.on_kept_outputs(e, state, findings); }
  void on(const ConvolutionShapeEvent& e) { check.on_convolution_shape(e, state, findings); }
  void on(const DeviceWaitsEvent& e) { check.on_device_waits(e, state, findings); }
  void on(const CollectiveEvent& e) { check.on_collective(e, state, findings); }
  void on(const PendingUseEvent& e) { check.on_pending_use(e, state, findings); }
  void on(const CollectiveEndEvent& e) { check.on_collective_end(e, state, findings); }
  void on(const DeviceMemoryEvent& e) { check.on_device_memory(e, state, findings); }
  void on(const ReducerEvent& e) { check.on_reducer(e, state, findings); }
  void on(const ExitEvent& e) { check.on_exit(e, state, findings); }
  void on(const DroppedEvent& e) { check.on_dropped(e, state); }
  template <class T>
  void on(const T&) {
    check.pass();
  }

  template <class T>
  void operator()(const std::unique_ptr<T>& e) {
    on(*e);
  }
  template <class T>
  void operator()(const T& e) {
    on(e);
  }
};
}  // namespace

Judge::Judge(const JudgeOptions& options, Sink sink)
    : Judge(options, std::move(sink), check_table()) {}

Judge::Judge(const JudgeOptions& options, Sink sink, std::span<const CheckRow> table)
    : rank_(options.rank), sink_(std::move(sink)) {
  state_.set_sites(options.sites);
  state_.set_world_size(options.world_size);
  for (const CheckRow& row : table) {
    const bool is_ours = row.factory != nullptr && !is_over_ranks(row);
    if (is_ours && check_enabled(options.checks, row.id)) add(row, options);
  }
}

void Judge::add(const CheckRow& row, const JudgeOptions& options) {
  Running running{.id = std::string(row.id)};
  running.coverage.why = why_blocked(row, options);
  running.is_left_out = row.level > options.level;
  running.needs_steps = needs_steps(row);
  if (running.coverage.why.empty()) {
    running.check = row.factory();
  } else {
    running.coverage.state = CheckState::kBlocked;
  }
  for (auto& listeners : listeners_) listeners.push_back(running_.size());
  running_.push_back(std::move(running));
}

void Judge::consume(const Event& event) {
  state_.apply(event);
  std::erase_if(listeners_[event.index()], [&](std::size_t index) {
    Running& running = running_[index];
    if (running.check == nullptr) return true;
    Findings findings;
    call(running, event, findings);
    for (Finding& finding : findings) emit(running, std::move(finding));
    return running.check == nullptr || running.check->take_pass();
  });
  const auto* exit = std::get_if<ExitEvent>(&event);
  if (exit == nullptr) return;
  tell_blocked();
  if (exit->rested) keep(about_rest(*exit->rested));
  for (Running& running : running_) see_unfinished(running);
}

void Judge::see_unfinished(Running& running) const {
  if (running.check == nullptr || running.coverage.state != CheckState::kPassed) return;
  running.coverage.why = running.check->unfinished(state_);
  if (running.needs_steps && state_.now().step <= 1) running.coverage.why = "no step ended";
  if (!running.coverage.why.empty()) running.coverage.state = CheckState::kBlocked;
}

void Judge::tell_blocked() {
  std::vector<BlockedCheck> blocked;
  for (const Running& running : running_) {
    if (running.coverage.state != CheckState::kBlocked || running.is_left_out) continue;
    blocked.push_back({running.id, running.coverage.why});
  }
  if (!blocked.empty()) keep(about_blocked(blocked, running_.size()));
}

void Judge::call(Running& running, const Event& event, Findings& findings) {
  using Clock = std::chrono::steady_clock;
  const bool measured = running.calls++ % kCostSampling == 0;
  const Clock::time_point begin = measured ? Clock::now() : Clock::time_point();
  try {
    std::visit(Dispatch{*running.check, state_, findings}, event);
  } catch (const std::exception& error) {
    disable(running, error.what());
  } catch (...) {
    disable(running, "an unknown exception");
  }
  if (!measured) return;
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
  running.coverage.cost_ns += spent.count() * kCostSampling;
}

void Judge::disable(Running& running, const std::string& what) {
  running.check.reset();
  running.coverage.state = CheckState::kOff;
  running.coverage.why = fmt::format("threw \"{}\"", what);
  Finding finding = about_thrown(running.id, running.coverage.why);
  finding.facts.push_back({fact::kSinceStep, state_.now().step});
  keep(std::move(finding));
}

void Judge::emit(Running& running, Finding finding) {
  if (running.coverage.state == CheckState::kPassed) running.coverage.state = CheckState::kFailed;
  finding.id = running.id;
  keep(std::move(finding));
}

void Judge::keep(Finding finding) {
  finding.rank = rank_;
  if (finding.step == 0) finding.step = state_.now().step;
  finding.last_step = finding.step;
  if (finding.first_step == 0) finding.first_step = finding.step;
  finding.fingerprint = fingerprint_of(finding);

  const auto known = by_fingerprint_.find(finding.fingerprint);
  if (known == by_fingerprint_.end()) {
    if (kept_.size() >= kMaxKept) return;
    by_fingerprint_[finding.fingerprint] = kept_.size();
    kept_.push_back(finding);
    link(kept_.back());
    sink_(kept_.back());
    return;
  }
  Finding& kept = kept_[known->second];
  // One that names the step in which it began goes on to this one.
  if (finding.step <= kept.last_step) {
    finding.last_step = std::max(kept.last_step, state_.now().step);
  }
  const bool rises = finding.severity > kept.severity;
  add_repetition(kept, std::move(finding));
  if (rises || is_round(kept.occurrences)) sink_(kept);
}

/// One finding explains another, whichever came first.
void Judge::link(Finding& added) {
  for (Finding& other : kept_) {
    if (&other == &added) continue;
    if (link(added, other)) sink_(other);
    link(other, added);
  }
}

bool Judge::link(Finding& cause, Finding& effect) {
  if (!effect.caused_by.empty() || !explains(cause, effect)) return false;
  effect.caused_by = cause.fingerprint;
  effect.causal_role = CausalRole::kCascade;
  cause.causal_role = CausalRole::kInitiating;
  return true;
}

std::map<std::string, CheckCoverage> Judge::coverage() const {
  std::map<std::string, CheckCoverage> coverage;
  for (const Running& running : running_) coverage[running.id] = running.coverage;
  return coverage;
}

Findings Judge::findings() const { return kept_; }

}  // namespace ddpscope
