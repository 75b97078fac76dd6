#pragma once

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "hooks/device_arrivals.h"
#include "hooks/device_readings.h"

namespace ddpscope {

class Capture;

/// The values of gradients and losses on a device. What arrives while a backward runs is listed; at
/// its end, before an optimizer can write over it, one pass per device is queued on the stream that
/// is current there, behind all that computed it. What the pass finds is told in a later backward,
/// and judged as if it had been read at the end of its own. Level values.
///
/// Keeps no tensor beyond the launch and waits for nothing; throws nothing out of a hook. Leaves
/// whose gradient a hook of the program takes over are left out: at the end of the backward it may
/// be averaged already, or gone. Of a gradient that adds up with an earlier one the sum is read,
/// and only whether it is finite is told.
class DeviceGradients {
 public:
  DeviceGradients(DevicePasses& passes, c10::DeviceType type)
      : type_(type), passes_(passes), readings_(passes) {}

  /// What a backward begins at; before `begin`, on its thread.
  void roots(Capture& capture, const torch::autograd::variable_list& roots);
  /// A backward begins that is not inside of another one and accumulates gradients.
  void begin(Capture& capture) noexcept;
  /// A gradient reaches the leaf of `node`, on any thread, and is not yet accumulated.
  void arrived(Capture& capture, TensorSlot& slot, const torch::autograd::AccumulateGrad& node) {
    if (node.variable.device().type() == type_) add(capture, slot, node);
  }
  /// The backward of this thread has ended.
  void end(Capture& capture, bool threw) noexcept;
  /// Tells the values that have come.
  void tell(Capture& capture) noexcept;

 private:
  struct List {
    std::vector<Wanted> wanted;
    std::vector<at::Tensor> alive;  // until the pass is queued
  };
  struct Root {
    TensorSlot* slot = nullptr;
    TensorId id = 0;
  };
  struct RootsOfThread {
    std::vector<Root> roots;
  };

  bool is_on(const Capture& capture) const;
  void add(Capture& capture, TensorSlot& slot, const torch::autograd::AccumulateGrad& node);
  void list(const at::Tensor& tensor, Wanted wanted, std::map<int, List>& lists) const;
  void ask(Capture& capture, int device, const List& list);
  void tell_all(Capture& capture);
  void tell_failures(Capture& capture);
  template <class Work>
  void guarded(Capture& capture, Work&& work) noexcept;

  const c10::DeviceType type_;
  DevicePasses& passes_;
  std::atomic<bool> seen_{false};     // a gradient on such a device
  std::atomic<bool> waiting_{false};  // for values
  std::atomic<bool> off_{false};
  std::mutex mutex_;  // of those two; not held while LibTorch is called
  DeviceArrivals arrivals_;
  DeviceReadings readings_;
};

/// Those of the GPU; never destroyed.
DeviceGradients& device_gradients() noexcept;

}  // namespace ddpscope
