#include "hooks/capture.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "hooks/batch_watch.h"
#include "hooks/collective_watch.h"
#include "hooks/device_waits.h"
#include "hooks/hook_rest.h"
#include "hooks/idle_rest.h"
#include "hooks/loader_watch.h"
#include "hooks/model_discovery.h"
#include "hooks/near_tls.h"
#include "hooks/op_callbacks.h"
#include "hooks/outputs_of_step.h"
#include "hooks/own_thread.h"
#include "hooks/replica_bits.h"
#include "hooks/step_wait.h"
#include "hooks/user_hooks.h"
#include "hooks/write_scope.h"
#include "model/clock.h"
#include "model/recorded_steps.h"

namespace ddpscope {
namespace {
DDPSCOPE_NEAR thread_local bool inside_hook = false;
DDPSCOPE_NEAR thread_local std::uint32_t brief_scopes = 0;
constexpr std::uint32_t kTimeOneOf = 17;  // prime: the hooks of a step follow a pattern
// Longer than any brief hook: the thread was taken off its core meanwhile. About 50 us.
constexpr std::uint64_t kBriefTicks = 1 << 17;

std::uint64_t weighted(std::uint64_t spent, std::uint32_t weight) {
  const std::uint64_t brief = std::min(spent, kBriefTicks);
  return weight * brief + (spent - brief);
}
}  // namespace

void Capture::set_active(Capture* capture) noexcept {
  hook_state.compares_ranks = capture != nullptr && capture->options_.compares_ranks;
  hook_state.active.store(capture);
}

HookScope::HookScope(Timed timed, Watch needs) noexcept : reads_values_(needs == Watch::kFull) {
  if (Capture::watch() < needs || inside_hook) return;
  capture_ = Capture::active();
  if (capture_ == nullptr) return;
  inside_hook = true;
  if (timed == Timed::kSampled) {
    if (++brief_scopes % kTimeOneOf != 0) return;
    weight_ = kTimeOneOf;
  } else {
    weight_ = 1;
  }
  begin_ = ticks();
}

void leave_thread_alone() noexcept { inside_hook = true; }

HookScope::~HookScope() noexcept {
  if (capture_ == nullptr) return;
  if (weight_ > 0) capture_->add_hook_ticks(weighted(ticks() - begin_, weight_), reads_values_);
  inside_hook = false;
}

TensorId Capture::announce(const at::Tensor& tensor) {
  return tensor.defined() ? announced_slot(tensor).id.load() : 0;
}

TensorSlot& Capture::announced_slot(const at::Tensor& tensor) {
  TensorSlot& slot = tensors_.slot(tensor);
  if (!slot.announced.load(std::memory_order_relaxed) && !slot.announced.exchange(true)) {
    TensorInfo info = describe(tensor, slot.id);
    if (info.is_leaf && !info.requires_grad) info.view_of = announce_base(tensor);
    put_large(TensorEvent{.at = marker_.now(), .tensor = std::move(info)});
  }
  return slot;
}

TensorId Capture::announce_base(const at::Tensor& tensor) {
  const auto* const view = torch::autograd::impl::get_view_autograd_meta(tensor);
  if (view == nullptr || !view->has_bw_view()) return 0;
  return announce(view->get_backward_view().base_);  // a base is no view
}

void Capture::clock_moved(const Stamp& before, StepClock::Change change) {
  if (!change.step_ended) return;
  if (watch() == Watch::kNothing && !options_.compares_ranks) {
    return rested_step_ended(before, change);
  }
  // What a survey saw dies with its step. A weak reference that stays would keep the dead tensor
  // object between the program's own blocks and so split the heap the next step needs.
  if (!swept_.exchange(!marker_.surveying())) tensors_.sweep();
  DeviceWaits::step_ended(*this, before);
  BatchWatch::step_ended(*this);
  if (options_.compares_ranks) {
    ReplicaBits::step_ended(*this, before);
    StepEndEvent ended = marker_.step_end(before);
    StepWait::add_to(ended);
    put(ended);
  }
  // First, as what follows belongs to the next cycle.
  if (change.cycle_ended) tell_cycle(before);
  OutputsOfStep::step_ended(*this);
  // Ranks at rest know what others do of the layers that they compare.
  const bool watched = watch() != Watch::kNothing;
  if (watched || ReplicaBits::reads_after(*this, before)) modules_.look_again(*this, watched);
  sink_.take_turn();  // the cycle that was watched pays for it
  if (change.cycle_ended) choose_watch();
  const bool rests = watch() == Watch::kNothing;
  if (rests && !BatchWatch::is_awaited()) {
    StepWait::forget();
  } else {
    StepWait::begin(*this, rests);
  }
  survey_operators(marker_.surveying());
}

// Hooks rest in most steps, so that this is what a step takes. What was put off is made up for
// where they wake.
void Capture::rested_step_ended(const Stamp& before, StepClock::Change change) {
  if (!swept_.exchange(true)) tensors_.sweep();
  DeviceWaits::step_ended(*this, before);
  if (change.cycle_ended) tell_cycle(before);
  OutputsOfStep::step_ended(*this);
  if (has_news_.exchange(false)) sink_.take_turn();
  if (change.cycle_ended) choose_watch();
  const bool rests = watch() == Watch::kNothing;
  if (rests && !options_.values) return StepWait::forget();
  StepWait::begin(*this, rests);
  if (rests) return BatchWatch::await_forward();
  BatchWatch::step_ended(*this);
  survey_operators(marker_.surveying());
}

void Capture::give_turn() noexcept {
  const HookScope scope(Timed::kAlways);
  if (scope) sink_.take_turn();
}

void Capture::tell_cycle(const Stamp& at) {
  const bool rested = watch() == Watch::kNothing;
  const IssuedCalls calls = issued_calls_since(calls_told_);
  arm_if_calls_stop(calls.count);
  if (rested && !is_step_recorded(at)) return;
  const Spent cycle = spent_since_cycle_end();
  if (rested) {
    put(RestedStepEvent{.at = at,
                        .wall_ms = cycle.wall_ms,
                        .overhead_us = cycle.hooks_ms * 1e3,
                        .unix_ns = unix_ns(),
                        .calls = calls});
    return;
  }
  put(CycleEndEvent{.at = at,
                    .wall_ms = cycle.wall_ms,
                    .overhead_us = cycle.hooks_ms * 1e3,
                    .unix_ns = unix_ns(),
                    .compute_threads = at::get_num_threads(),
                    .loader_threads = loader_threads(),
                    .calls = calls});
}

void Capture::arm_if_calls_stop(std::int64_t calls) {
  const std::lock_guard lock(time_mutex_);
  if (pace_.stops(calls)) calls_stopped_ = true;
  if (calls > 0) calls_stopped_ = false;
  if (calls_stopped_ && governor_.arm()) calls_stopped_ = false;
}

void Capture::choose_watch() {
  const std::lock_guard lock(time_mutex_);
  const Spent now = spent();
  const Watch next = governor_.cycle_ended({.wall_ms = now.wall_ms - last_.wall_ms,
                                            .hooks_ms = now.hooks_ms - last_.hooks_ms,
                                            .values_ms = now.values_ms - last_.values_ms,
                                            .surveyed = surveyed_},
                                           marker_.has_one_thread());
  last_ = now;
  if (governor_.coverage().cycles == 0) first_ = now;
  set_watch(next);
  marker_.cycle_began(next != Watch::kNothing);
  IdleRest::cycle_ended();
  surveyed_ = marker_.surveying();
}

// Where hooks rest, the pace of the last watched cycle: asking for the time touches the pages of
// three libraries.
double Capture::ms_per_tick(std::uint64_t since_start) const noexcept {
  const double known = ms_per_tick_.load(std::memory_order_relaxed);
  if (known > 0 && watch() == Watch::kNothing) return known;
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start_;
  const double pace = since_start > 0 ? wall.count() / static_cast<double>(since_start) : 0;
  ms_per_tick_.store(pace, std::memory_order_relaxed);
  return pace;
}

double Capture::ms_of(std::uint64_t spent_ticks) const noexcept {
  return ms_per_tick(ticks() - start_ticks_) * static_cast<double>(spent_ticks);
}

Capture::Spent Capture::spent() const noexcept {
  const std::uint64_t all = ticks() - start_ticks_;
  const double pace = ms_per_tick(all);
  const auto ms = [pace](std::uint64_t spent) { return pace * static_cast<double>(spent); };
  return {.wall_ms = ms(all),
          .hooks_ms = ms(hook_ticks_.load(std::memory_order_relaxed)),
          .values_ms = ms(value_ticks_.load(std::memory_order_relaxed))};
}

Capture::Spent Capture::spent_since_cycle_end() {
  const std::lock_guard lock(time_mutex_);
  const Spent now = spent();
  return {.wall_ms = now.wall_ms - last_.wall_ms, .hooks_ms = now.hooks_ms - last_.hooks_ms};
}

CostGovernor Capture::governor() {
  const std::lock_guard lock(time_mutex_);
  return governor_;
}

void Capture::arm() {
  const std::lock_guard lock(time_mutex_);
  governor_.arm();
}

void Capture::optimizer_created() {
  marker_.optimizer_created();
  if (marker_.now().step == 1) return;
  const std::lock_guard lock(time_mutex_);
  governor_.loop_began();
}

void Capture::wake() {
  const std::lock_guard lock(time_mutex_);
  if (watch() == Watch::kFull) return;
  governor_.wake();
  set_watch(Watch::kFull);
  marker_.leave_survey();
}

bool Capture::rest_in_cycle() {
  {
    const std::lock_guard lock(time_mutex_);
    const Spent now = spent();
    const bool is_over = governor_.is_over(
        {.wall_ms = now.wall_ms - last_.wall_ms, .hooks_ms = now.hooks_ms - last_.hooks_ms});
    if (watch() == Watch::kNothing || !marker_.has_one_thread() || !is_over) return false;
    governor_.cut();
    set_watch(Watch::kNothing);
    marker_.cycle_began(/*whole=*/false);
  }
  tensors_.sweep();
  survey_operators(false);
  return true;
}

void Capture::set_watch(Watch next) noexcept {
  const Watch before = hook_state.watch.exchange(next, std::memory_order_relaxed);
  const bool rests = next == Watch::kNothing;
  if (next != before) writes_.begin_watch();
  if (rests == (before == Watch::kNothing)) return;
  if (rests) {
    cycle_hooks().rest();
    let_operators_rest();
  } else {
    end_wait_of_discovery();
    cycle_hooks().wake();
    operator_hooks().wake();
    RestingWriters::end();
  }
  marker_.rest(rests);
}

void Capture::let_operators_rest() const noexcept {
  // Where they tell that a forward begins, they tell how long data was waited for.
  const bool is_needed = BatchWatch::begins_forwards() || options_.waits_for_targets ||
                         DeviceWaits::is_device_used() || at::globalContext().benchmarkCuDNN();
  if (is_needed) return;
  operator_hooks().rest();
  if (UserHooks::any()) operator_hooks().wake();  // now, or on another thread meanwhile
}

void Capture::fault(const char* source) noexcept {
  const char* none = nullptr;
  faulted_.compare_exchange_strong(none, source);
}

}  // namespace ddpscope
