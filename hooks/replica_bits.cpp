#include "hooks/replica_bits.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "hooks/capture.h"
#include "hooks/module_tracker.h"
#include "hooks/per_thread.h"
#include "hooks/value_reader.h"
#include "values/tensor_values.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMostRan = 1 << 12;

/// The modules that ran on this thread since the last step, where the next backward is one before
/// which parameters are read.
struct ModulesThatRan {
  std::vector<ModuleId> ids;
};
std::vector<ModuleId>& modules_that_ran() { return PerThread<ModulesThatRan>::get().ids; }

ScalarKind kind_with(std::size_t element_bytes) {
  return element_bytes % 8 == 0   ? ScalarKind::kDouble
         : element_bytes % 4 == 0 ? ScalarKind::kFloat
                                  : ScalarKind::kHalf;
}

// A full pass takes three times as long as the bits alone: less than a millisecond per step once
// training runs. All ranks choose alike, as their tensors are in one order.
constexpr std::int64_t kSketchedAtStart = 1 << 26;  // elements
constexpr std::int64_t kSketchedLater = 1 << 20;

GradientSketch sketch_within(std::int64_t& room, const at::Tensor& tensor) {
  const auto data = readable_data(tensor);
  if (!data.has_value() || data->elements > room) return kNoSketch;
  room -= data->elements;
  return sketch_in(measure_values(*data));
}

// A pass over them takes about a tenth of a millisecond, and what is left of them little room.
constexpr std::size_t kSmallTensors = 512;
constexpr std::int64_t kSmallElements = 1 << 18;

std::int64_t elements_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

bool are_small(const std::vector<at::Tensor>& tensors) {
  return tensors.size() <= kSmallTensors && elements_of(tensors) <= kSmallElements;
}

// A few microseconds, in one of so many steps.
constexpr std::size_t kTinyTensors = 64;
constexpr std::int64_t kTinyElements = 1 << 14;
constexpr std::int64_t kTinyEvery = 4;
constinit std::atomic<bool> is_tiny{false};  ///< what was trained when it was looked at last

bool are_tiny(const std::vector<at::Tensor>& tensors) {
  return !tensors.empty() && tensors.size() <= kTinyTensors &&
         elements_of(tensors) <= kTinyElements;
}

void tell(Capture& capture, std::int64_t step, bool of_buffers,
          const std::vector<at::Tensor>& tensors) {
  TensorBitsEvent event{.step = step, .of_buffers = of_buffers, .tensors = {}, .ran = {}};
  if (!of_buffers) event.ran = modules_that_ran();
  std::int64_t room = step == 0 ? kSketchedAtStart : kSketchedLater;
  for (const at::Tensor& tensor : tensors) {
    event.tensors.push_back({.tensor = capture.id_of(tensor),
                             .fingerprint = bits_of(tensor),
                             .sketch = step < 0 ? kNoSketch : sketch_within(room, tensor)});
  }
  if (!event.tensors.empty()) capture.put_large(std::move(event));
}

void tell_buffers(Capture& capture, std::int64_t step) {
  tell(capture, step, /*of_buffers=*/true, capture.modules().own_tensors(/*buffers=*/true));
}

/// `summed` elements over the ranks since the last step may have been weights.
void tell_parameters(Capture& capture, std::int64_t step, std::int64_t summed) {
  const std::vector<at::Tensor> tensors = capture.modules().own_tensors(/*buffers=*/false);
  const std::int64_t own = step - lone_steps.load(std::memory_order_relaxed);
  const bool tiny = are_tiny(tensors);
  is_tiny.store(tiny, std::memory_order_relaxed);
  if (is_compared_step(own) || (own % kTinyEvery == 0 && tiny) ||
      (step <= kComparesEachUntil && are_small(tensors)) ||
      (summed > 0 && 2 * summed >= elements_of(tensors) && Capture::watch() != Watch::kNothing)) {
    tell(capture, step, /*of_buffers=*/false, tensors);
  }
}

bool compares_parameters(std::int64_t step) {
  const std::int64_t own = step - lone_steps.load(std::memory_order_relaxed);
  return step <= kComparesEachUntil || is_compared_step(own) ||
         (own % kTinyEvery == 0 && is_tiny.load(std::memory_order_relaxed));
}
}  // namespace

// As numbers of the size of its elements.
std::uint64_t bits_of(const at::Tensor& tensor) {
  if (!is_readable(tensor)) return 0;
  const std::size_t bytes = tensor.nbytes();
  const ScalarKind kind = kind_with(tensor.itemsize());
  const std::size_t element = kind == ScalarKind::kDouble ? 8 : kind == ScalarKind::kFloat ? 4 : 2;
  const auto* data = static_cast<const unsigned char*>(tensor.unsafeGetTensorImpl()->data());
  std::uint64_t bits = fingerprint_of(
      {.data = data, .elements = static_cast<std::int64_t>(bytes / element), .kind = kind});
  for (std::size_t i = bytes - bytes % element; i < bytes; ++i) bits = bits * 31 + data[i] + 1;
  return bits == 0 ? 1 : bits;
}

bool compares_replicas(const Capture& capture) {
  return capture.options().compares_ranks && capture.options().values;
}

void ReplicaBits::model_attached(const Capture& capture) noexcept {
  if (!compares_replicas(capture) || capture.marker().completed_steps() > 0) return;
  // In a forward that runs already, buffers may have changed.
  awaits_forward_.store(!capture.marker().inside_forward(), std::memory_order_relaxed);
  awaits_backward_.store(true, std::memory_order_relaxed);
}

void ReplicaBits::buffers_attached(Capture& capture, const std::vector<at::Tensor>& buffers) {
  const bool is_before = compares_replicas(capture) && capture.marker().completed_steps() == 0;
  if (is_before && !capture.marker().inside_forward()) {
    tell(capture, kAtAttach, /*of_buffers=*/true, buffers);
  }
}

void ReplicaBits::before_forward() noexcept {
  as_guest("replica_bits", [](Capture& capture) {
    if (!awaits_forward_.exchange(false) || capture.marker().completed_steps() > 0) return;
    tell_buffers(capture, 0);
  });
}

void ReplicaBits::see_backward(Capture& capture) {
  const std::int64_t summed = summed_.exchange(0, std::memory_order_relaxed);
  if (!awaits_backward_.load(std::memory_order_relaxed) || !compares_replicas(capture)) return;
  awaits_backward_.store(false, std::memory_order_relaxed);
  // A forward that was not seen may have changed its buffers.
  awaits_forward_.store(false, std::memory_order_relaxed);
  const std::int64_t done = capture.marker().completed_steps();
  // What the first step begins with is told as step 0.
  tell_parameters(capture, done == 0 ? 0 : done + 1, summed);
  modules_that_ran().clear();
}

bool ReplicaBits::reads_after(const Capture& capture, const Stamp& at) noexcept {
  return compares_replicas(capture) && compares_parameters(at.step + 1);
}

void ReplicaBits::step_ended(Capture& capture, const Stamp& at) {
  if (!compares_replicas(capture)) return;
  // Not at the end of a step: programs send what their part of an optimizer made after it.
  if (compares_parameters(at.step + 1)) awaits_backward_.store(true, std::memory_order_relaxed);
  evaluated_.store(false, std::memory_order_relaxed);
  if (is_compared_step(at.step - lone_steps.load(std::memory_order_relaxed)))
    tell_buffers(capture, at.step);
}

void ReplicaBits::note_run() noexcept {
  const ModuleId module = ModuleCalls::innermost();
  if (module == 0) return;
  as_guest("replica_bits", [module](Capture&) {
    std::vector<ModuleId>& modules = modules_that_ran();
    if (modules.size() >= kMostRan) return;
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
  });
}

void ReplicaBits::layer_called() noexcept {
  if (awaits_backward_.load(std::memory_order_relaxed)) note_run();
  Capture* const capture = Capture::active();
  if (capture == nullptr) return;
  if (!c10::GradMode::is_enabled()) return ReplicaBits::see_other_forward();
  capture->marker().see_forward();
  ReplicaBits::see_forward();
}

void ReplicaBits::before_evaluation() noexcept {
  as_guest(
      "replica_bits",
      [](Capture& capture) {
        const bool is_after_step = capture.marker().completed_steps() > 0;
        if (!compares_replicas(capture) || !is_after_step || evaluated_.exchange(true)) return;
        capture.put(EvaluationEvent{.at = capture.marker().now()});
      },
      Timed::kSampled);
}

}  // namespace ddpscope
