#include "hooks/device_gradients.h"

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hooks/capture.h"
#include "hooks/per_thread.h"
#include "hooks/value_reader.h"

namespace ddpscope {
namespace {
using torch::autograd::AccumulateGrad;
using torch::autograd::variable_list;

constexpr const char* kSource = "device_value";

c10::Device device_of(c10::DeviceType type, int number) {
  return {type, static_cast<c10::DeviceIndex>(number)};
}

// The hooks run before the backward ends, and may do anything with the gradient.
bool is_taken_over(const AccumulateGrad& node) {
  return !node.post_hooks().empty() ||
         torch::autograd::impl::post_acc_grad_hooks(node.variable) != nullptr;
}

bool is_bad(const DeviceValuesEvent& values) {
  const auto is_finite = [](const LossEvent& loss) { return std::isfinite(loss.value); };
  return !values.nonfinite.empty() || !std::ranges::all_of(values.losses, is_finite);
}

at::Tensor alive_in(Capture& capture, const TensorSlot& slot, TensorId id) {
  if (slot.id.load(std::memory_order_relaxed) != id) return {};
  return capture.tensors().lock(slot);
}
}  // namespace

template <class Work>
void DeviceGradients::guarded(Capture& capture, Work&& work) noexcept {
  try {
    work();
  } catch (...) {
    off_.store(true);
    capture.fault(kSource);
  }
}

bool DeviceGradients::is_on(const Capture& capture) const {
  return c10::impl::hasDeviceGuardImpl(type_) && !off_.load(std::memory_order_relaxed) &&
         capture.options().values;
}

void DeviceGradients::roots(Capture& capture, const variable_list& roots) {
  if (!is_on(capture)) return;
  auto& mine = PerThread<RootsOfThread>::get().roots;
  mine.clear();
  for (const at::Tensor& root : roots) {
    if (!root.defined() || root.device().type() != type_) continue;
    TensorSlot& slot = capture.tensors().slot(root);
    mine.push_back({&slot, slot.id.load(std::memory_order_relaxed)});
    hook_state.device_values.store(true, std::memory_order_relaxed);
  }
}

void DeviceGradients::begin(Capture& capture) noexcept {
  if (!is_on(capture)) return;
  guarded(capture, [&] {
    tell(capture);
    const int device = seen_.load(std::memory_order_relaxed) ? passes_.current_device() : -1;
    const std::lock_guard lock(mutex_);
    arrivals_.begin(thread_number(), device);
  });
}

void DeviceGradients::add(Capture& capture, TensorSlot& slot, const AccumulateGrad& node) {
  if (!is_on(capture) || is_taken_over(node)) return;
  const at::Tensor& leaf = node.variable;
  const bool adds_up = gradient_before(slot, leaf, false) == GradientBefore::kKept;
  seen_.store(true, std::memory_order_relaxed);
  hook_state.device_values.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  arrivals_.add(
      leaf.device().index(),
      {.slot = &slot, .leaf = slot.id.load(std::memory_order_relaxed), .adds_up = adds_up});
}

void DeviceGradients::list(const at::Tensor& tensor, Wanted wanted,
                           std::map<int, List>& lists) const {
  if (!tensor.defined() || tensor.device().type() != type_) return;
  const auto data = dense_data(tensor);
  if (!data.has_value() || data->elements == 0 || data->data == nullptr) return;
  if (wanted.is_loss && data->elements != 1) return;
  wanted.data = *data;
  wanted.dtype = dtype_name(tensor.scalar_type());
  List& of_device = lists[tensor.device().index()];
  of_device.wanted.push_back(wanted);
  of_device.alive.push_back(tensor);
}

void DeviceGradients::end(Capture& capture, bool threw) noexcept {
  if (!is_on(capture)) return;
  guarded(capture, [&] {
    const auto losses = std::exchange(PerThread<RootsOfThread>::get().roots, {});
    std::vector<DeviceArrivals::List> arrived;
    {
      const std::lock_guard lock(mutex_);
      arrived = arrivals_.end(thread_number());
    }
    if (threw) return;
    tell(capture);
    // As on the CPU: the loss is looked at in every cycle.
    const bool is_resting = Capture::watch() == Watch::kNothing;
    std::map<int, List> lists;
    for (const Root& loss : losses) {
      const Wanted wanted{.tensor = loss.id, .is_loss = true, .only_if_bad = is_resting};
      list(alive_in(capture, *loss.slot, loss.id), wanted, lists);
    }
    for (const auto& [device, arrivals] : arrived) {
      for (const Arrival& arrival : arrivals) {
        const at::Tensor leaf = alive_in(capture, *arrival.slot, arrival.leaf);
        if (!leaf.defined() || !leaf.is_leaf()) continue;
        list(leaf.grad(), {.tensor = arrival.leaf, .adds_up = arrival.adds_up}, lists);
      }
    }
    for (const auto& [device, of_device] : lists) ask(capture, device, of_device);
  });
}

void DeviceGradients::ask(Capture& capture, int device, const List& list) {
  const c10::DeviceGuard guard(device_of(type_, device));
  const DeviceReadings::Place place{
      .device = device, .stream = passes_.stream_of(device), .at = capture.marker().now()};
  const std::lock_guard lock(mutex_);
  const std::uint64_t batch = readings_.launch(place, list.wanted);
  if (batch != 0) {
    // Before any thread can tell its values.
    capture.put(ValuesAwaitedEvent{.at = place.at, .batch = batch});
    waiting_.store(true, std::memory_order_relaxed);
  }
  tell_failures(capture);
}

// A device that cannot be asked now, as at exit, is no failure of its own.
void DeviceGradients::tell(Capture& capture) noexcept {
  if (!waiting_.load(std::memory_order_relaxed)) return;
  try {
    tell_all(capture);
  } catch (...) {
  }
}

void DeviceGradients::tell_all(Capture& capture) {
  std::vector<int> devices;
  {
    const std::lock_guard lock(mutex_);
    devices = readings_.waiting();
    if (devices.empty()) waiting_.store(false, std::memory_order_relaxed);
  }
  for (const int device : devices) {
    const c10::DeviceGuard guard(device_of(type_, device));
    const std::lock_guard lock(mutex_);
    while (auto values = readings_.take(device)) {
      if (is_bad(*values)) capture.arm();
      capture.put(std::move(values));
    }
    tell_failures(capture);
  }
}

// The name stays for the summary, which says what did not run.
void DeviceGradients::tell_failures(Capture& capture) {
  while (const auto failure = readings_.take_failure()) {
    const auto* const kept = new std::string(std::string(kSource) + " (" + *failure + ")");
    capture.fault(kept->c_str());
  }
}

DeviceGradients& device_gradients() noexcept {
  static auto* const leaked = new DeviceGradients(cuda_passes(), c10::DeviceType::CUDA);
  return *leaked;
}

}  // namespace ddpscope
