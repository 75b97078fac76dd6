#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hooks/device_pass.h"
#include "model/device_event.h"

namespace ddpscope {

/// One tensor of a list that is launched.
struct Wanted {
  TensorId tensor = 0;  ///< the leaf of a gradient, or the loss
  TensorData data;
  const char* dtype = "";
  bool is_loss = false;      ///< of one element
  bool only_if_bad = false;  ///< the loss is told where it is not finite
  bool adds_up = false;      ///< as in `Arrival`
};

/// Asks devices for the values of lists of tensors, and tells them once they are there. Never
/// waits: while two lists of a device are under way, further ones are not read. A device of which a
/// call failed is never asked again. Every call is made with that device as the current one.
/// Thread: one at a time. Throws nothing but std::bad_alloc.
class DeviceReadings {
 public:
  static constexpr std::size_t kUnderWay = 2;

  explicit DeviceReadings(DevicePasses& passes) : passes_(passes) {}

  struct Place {
    int device = 0;
    CUstream_st* stream = nullptr;
    Stamp at;
  };
  /// Queues the pass on the place's stream. The number of the batch; 0: it is not read.
  std::uint64_t launch(const Place& place, const std::vector<Wanted>& wanted);

  /// The oldest batch of this device, once its values are there; null: not yet, or none.
  std::unique_ptr<DeviceValuesEvent> take(int device);
  /// The devices that were asked and have not told.
  std::vector<int> waiting() const;

  /// Why a device is not asked any more, such as `cuda:0: cudaErrorLaunchFailure`; once for each.
  std::optional<std::string> take_failure();

 private:
  struct Batch {
    std::unique_ptr<DevicePass> pass;
    DeviceValues::Capacity capacity;
    std::uint64_t number = 0;  ///< 0: nothing is under way
    Stamp at;
    std::vector<Wanted> wanted;
  };
  struct Device {
    std::vector<Batch> batches;
    bool is_off = false;
    std::set<TensorId> spoilt;  ///< leaves whose gradient was not finite when it was last read
  };

  Batch* free_batch(Device& device, const Place& place, DeviceValues::Capacity needed);
  bool make_pass(Batch& batch, const Place& place, DeviceValues::Capacity needed);
  void turn_off(int number, Device& device, std::string why);
  static void tell(const Batch& batch, std::size_t i, const TensorValues& values, Device& device,
                   DeviceValuesEvent& event);

  DevicePasses& passes_;
  std::map<int, Device> devices_;
  std::uint64_t last_number_ = 0;
  std::vector<std::unique_ptr<DevicePass>> outgrown_;  // freeing one would wait for its device
  std::vector<std::string> failures_;
};

/// The number in a tensor of one element, from what a pass tells of it.
double number_of(const TensorValues& values, ScalarKind kind);

}  // namespace ddpscope
