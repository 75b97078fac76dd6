#include "hooks/capture.h"

#include "hooks/op_callbacks.h"

namespace ddpscope {
namespace {
#if defined(__GNUC__)
__attribute__((tls_model("initial-exec")))
#endif
thread_local bool inside_hook = false;
}  // namespace

constinit std::atomic<Capture*> Capture::active_{nullptr};

HookScope::HookScope() noexcept {
  if (inside_hook) return;
  capture_ = Capture::active();
  if (capture_ == nullptr) return;
  inside_hook = true;
  begin_ = ticks();
}

HookScope::~HookScope() noexcept {
  if (capture_ == nullptr) return;
  capture_->add_hook_ticks(ticks() - begin_);
  inside_hook = false;
}

TensorId Capture::announce(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  TensorSlot& slot = tensors_.slot(tensor);
  const TensorId id = slot.id;
  if (!slot.announced.exchange(true)) {
    put_large(TensorEvent{.at = marker_.now(), .tensor = describe(tensor, id)});
  }
  return id;
}

void Capture::clock_moved(const Stamp& before, StepClock::Change change) {
  if (!change.step_ended) return;
  if (change.cycle_ended) put(CycleEndEvent{.at = before});
  modules_.look_again(*this);
  survey_operators(marker_.surveying());
}

void Capture::fault(const char* source) noexcept {
  const char* none = nullptr;
  faulted_.compare_exchange_strong(none, source);
}

}  // namespace ddpscope
