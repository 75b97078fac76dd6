#include "hooks/capture.h"

#include <ATen/Parallel.h>

#include "hooks/loader_watch.h"
#include "hooks/near_tls.h"
#include "hooks/op_callbacks.h"
#include "hooks/outputs_of_step.h"
#include "hooks/step_wait.h"

namespace ddpscope {
namespace {
DDPSCOPE_NEAR thread_local bool inside_hook = false;
DDPSCOPE_NEAR thread_local std::uint32_t brief_scopes = 0;
constexpr std::uint32_t kTimeOneOf = 17;  // prime: the hooks of a step follow a pattern
}  // namespace

constinit std::atomic<Capture*> Capture::active_{nullptr};

HookScope::HookScope(Timed timed) noexcept {
  if (inside_hook) return;
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

HookScope::~HookScope() noexcept {
  if (capture_ == nullptr) return;
  if (weight_ > 0) capture_->add_hook_ticks(weight_ * (ticks() - begin_));
  inside_hook = false;
}

TensorId Capture::announce(const at::Tensor& tensor) {
  return tensor.defined() ? announced_slot(tensor).id.load() : 0;
}

TensorSlot& Capture::announced_slot(const at::Tensor& tensor) {
  TensorSlot& slot = tensors_.slot(tensor);
  if (!slot.announced.load(std::memory_order_relaxed) && !slot.announced.exchange(true)) {
    put_large(TensorEvent{.at = marker_.now(), .tensor = describe(tensor, slot.id)});
  }
  return slot;
}

void Capture::clock_moved(const Stamp& before, StepClock::Change change) {
  if (!change.step_ended) return;
  // What a survey saw dies with its step. A weak reference that stays would keep the dead tensor
  // object between the program's own blocks and so split the heap the next step needs.
  if (!swept_.exchange(!marker_.surveying())) tensors_.sweep();
  if (change.cycle_ended) {
    const Spent step = step_spent();
    put(CycleEndEvent{.at = before,
                      .wall_ms = step.wall_ms,
                      .overhead_us = step.hooks_ms * 1e3,
                      .compute_threads = at::get_num_threads(),
                      .loader_threads = loader_threads()});
  }
  OutputsOfStep::step_ended(*this);
  StepWait::begin(*this);
  modules_.look_again(*this);
  survey_operators(marker_.surveying());
}

double Capture::ms_of(std::uint64_t spent_ticks) const noexcept {
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start_;
  const auto all = static_cast<double>(ticks() - start_ticks_);
  return all > 0 ? wall.count() * static_cast<double>(spent_ticks) / all : 0;
}

Capture::Spent Capture::spent() const noexcept {
  return {.wall_ms = ms_of(ticks() - start_ticks_), .hooks_ms = ms_of(hook_ticks_.load())};
}

Capture::Spent Capture::step_spent() {
  const std::lock_guard lock(time_mutex_);
  const Spent now = spent();
  if (marker_.cycle() <= kFirstCycles + 1) first_ = now;
  const Spent step{.wall_ms = now.wall_ms - last_.wall_ms,
                   .hooks_ms = now.hooks_ms - last_.hooks_ms};
  last_ = now;
  return step;
}

void Capture::fault(const char* source) noexcept {
  const char* none = nullptr;
  faulted_.compare_exchange_strong(none, source);
}

}  // namespace ddpscope
