#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "hooks/content_watch.h"
#include "hooks/hook_scope.h"
#include "hooks/hook_state.h"
#include "hooks/module_tracker.h"
#include "hooks/saved_nodes.h"
#include "hooks/step_marker.h"
#include "hooks/tensor_registry.h"
#include "hooks/write_log.h"
#include "model/call_log.h"
#include "model/call_pace.h"
#include "model/cost_governor.h"
#include "model/event_sink.h"
#include "model/hot_code.h"
#include "stacks/stack_table.h"

namespace ddpscope {

struct CaptureOptions {
  bool values = true;             ///< values are read: from level `values` on
  std::size_t history = 1 << 16;  ///< writes and nodes that are remembered
  StackTable* stacks = nullptr;   ///< none: no stacks are taken
  StackTable* thrown = nullptr;   ///< for the stacks of exceptions
  std::size_t stack_depth = 32;
  double overhead_percent = 2;     ///< what hooks may take of the time of a cycle after the first
  std::int64_t full_cycles = 64;   ///< the first ones, in which all hooks run
  bool waits_for_targets = false;  ///< loss-target-range.strict
  CallLog* calls = nullptr;        ///< of collectives; none: they are only told
  bool compares_ranks = false;     ///< there are several
};

/// The parts that hooks share. One per process, never destroyed.
class Capture {
 public:
  Capture(EventSink& sink, CaptureOptions options)
      : sink_(sink),
        options_(options),
        governor_(options.overhead_percent, options.full_cycles),
        writes_(options.history),
        nodes_(options.history) {}

  /// The running capture; null before the first attach, after exit and in forked children.
  static Capture* active() noexcept { return hook_state.active.load(std::memory_order_acquire); }
  static void set_active(Capture* capture) noexcept;

  /// How much of this cycle is watched.
  static Watch watch() noexcept { return hook_state.watch.load(std::memory_order_relaxed); }
  /// Something is wrong: the next cycles are watched in full.
  void arm();
  /// If others have stepped before it, a loop of its own begins.
  void optimizer_created();
  /// Where hooks rest, or passes over values, they run from here to the end of the cycle. A
  /// backward is about to begin.
  void wake();
  /// Within a cycle: hooks rest where they took more of it than the budget allows. False: they did
  /// not, or may not.
  bool rest_in_cycle();
  CostGovernor governor();

  void put(Event&& event) noexcept {
    has_news_.store(true, std::memory_order_relaxed);
    sink_.put(std::move(event));
  }
  template <class T>
  void put_large(T&& event) {
    put(Event(std::make_unique<T>(std::move(event))));
  }

  /// The id of a tensor; tells the sink about it when it is new. 0 for an undefined tensor.
  TensorId announce(const at::Tensor& tensor);
  /// The same for a defined tensor; gives its slot.
  TensorSlot& announced_slot(const at::Tensor& tensor);
  TensorId id_of(const at::Tensor& tensor) { return tensors_.slot(tensor).id; }

  /// Turns a change of the clock into events, surveys and a new look at the module trees.
  DDPSCOPE_HOT void clock_moved(const Stamp& before, StepClock::Change change);

  TensorRegistry& tensors() noexcept { return tensors_; }
  StepMarker& marker() noexcept { return marker_; }
  const StepMarker& marker() const noexcept { return marker_; }
  ModuleTracker& modules() noexcept { return modules_; }
  WriteLog& writes() noexcept { return writes_; }
  const WriteLog& writes() const noexcept { return writes_; }
  SavedNodes& nodes() noexcept { return nodes_; }
  const SavedNodes& nodes() const noexcept { return nodes_; }
  ContentWatch& contents() noexcept { return contents_; }
  const CaptureOptions& options() const noexcept { return options_; }

  /// Wall time of the steps so far and the part of it that hooks took.
  struct Spent {
    double wall_ms = 0;
    double hooks_ms = 0;
    double values_ms = 0;  ///< of these, those that pass over values
  };
  /// Since the start, and up to the end of the first cycles.
  DDPSCOPE_HOT Spent spent() const noexcept;
  Spent spent_first() const noexcept { return first_; }
  DDPSCOPE_HOT double ms_of(std::uint64_t spent_ticks) const noexcept;

  /// Lets the sink work on what was put, as part of what hooks take; not from within a hook.
  void give_turn() noexcept;

  /// Called at the entry of a backward or of an optimizer step; may throw, when the run is to end.
  void set_halt(void (*halt)()) noexcept { halt_.store(halt); }
  static void halt_if_asked() {
    if (Capture* capture = active()) {
      if (watch() != Watch::kNothing) capture->give_turn();
      if (auto* const halt = capture->halt_.load(std::memory_order_relaxed)) halt();
    }
  }

  void add_hook_ticks(std::uint64_t spent, bool on_values) noexcept {
    hook_ticks_.fetch_add(spent, std::memory_order_relaxed);
    if (on_values) value_ticks_.fetch_add(spent, std::memory_order_relaxed);
  }
  void fault(const char* source) noexcept;
  const char* faulted_source() const noexcept { return faulted_.load(); }

 private:
  /// The id of what it is a view of; 0: of nothing.
  TensorId announce_base(const at::Tensor& tensor);
  DDPSCOPE_HOT void rested_step_ended(const Stamp& before, StepClock::Change change);
  DDPSCOPE_HOT void tell_cycle(const Stamp& at);
  /// What would part the replicas is looked at, though hooks rest.
  DDPSCOPE_HOT void arm_if_calls_stop(std::int64_t calls);
  DDPSCOPE_HOT void choose_watch();
  DDPSCOPE_HOT void set_watch(Watch next) noexcept;
  void let_operators_rest() const noexcept;
  Spent spent_since_cycle_end();
  DDPSCOPE_HOT double ms_per_tick(std::uint64_t since_start) const noexcept;

  // First what is asked in every step (Note [What a hook reads]); the log of writes is large.
  EventSink& sink_;
  CaptureOptions options_;
  std::atomic<void (*)()> halt_{nullptr};
  std::atomic<std::uint64_t> hook_ticks_{0};
  std::atomic<std::uint64_t> value_ticks_{0};
  const std::uint64_t start_ticks_ = ticks();
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::atomic<double> ms_per_tick_{0};
  std::atomic<bool> swept_{false};
  std::atomic<bool> has_news_{false};  ///< something was put since the sink had its last turn
  StepMarker marker_;
  std::mutex time_mutex_;  // guards what follows, up to `first_`
  bool surveyed_ = true;
  Spent last_;
  std::atomic<std::int64_t> calls_told_{0};  ///< collectives up to the end of the last cycle
  CallPace pace_;
  bool calls_stopped_ = false;  // and what follows was not yet watched
  CostGovernor governor_;
  Spent first_;

  TensorRegistry tensors_;
  ModuleTracker modules_;
  WriteLog writes_;
  SavedNodes nodes_;
  ContentWatch contents_;
  std::atomic<const char*> faulted_{nullptr};
};

/// Runs `work(capture)` as a guest: not when we are inside a hook already, nothing is thrown.
template <class Work>
[[gnu::always_inline]] inline void as_guest(const char* source, Work&& work,
                                            Timed timed = Timed::kAlways,
                                            Watch needs = Watch::kNothing) noexcept {
  const HookScope scope(timed, needs);
  if (!scope) return;
  try {
    work(*scope);
  } catch (...) {
    scope->fault(source);
  }
}

/// The same for what is looked at in a cycle that is watched.
template <class Work>
void as_observer(const char* source, Work&& work, Timed timed = Timed::kAlways) noexcept {
  as_guest(source, std::forward<Work>(work), timed, Watch::kStructure);
}

/// Whether this cycle has passes over values.
inline bool reads_values() noexcept {
  const Capture* const capture = Capture::active();
  return Capture::watch() == Watch::kFull && capture != nullptr && capture->options().values;
}

/// The same for passes over values, where `reads_values` said so.
template <class Work>
void as_reader(Work&& work) noexcept {
  as_guest("value", std::forward<Work>(work), Timed::kAlways, Watch::kFull);
}

}  // namespace ddpscope
