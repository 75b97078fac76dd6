#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Since when the registered tensors are on their devices, where some tree told that they moved.
class DeviceMoves {
 public:
  void update(const TreeEvent& event);
  std::optional<std::int64_t> step_of(const Registration& at) const;

 private:
  struct Place {
    std::string device;
    std::optional<std::int64_t> moved_at_step;
  };
  std::map<ModelId, std::map<std::string, Place>> places_;
};

/// Inputs of an operator that threw, of which some are on another device than the rest.
struct SplitInputs {
  std::vector<std::string> devices;  ///< distinct, as they came
  std::string rest;                  ///< the device of the others
  std::vector<std::size_t> odd;      ///< numbers of the inputs that are not there, largest first
};
/// Nothing where all are on one device, or the operator may mix them.
std::optional<SplitInputs> split_by_device(const OperatorFailedEvent& event, const RunState& state);

/// The findings of device-mismatch. The second is of an operator that was not looked at; nothing
/// where the exception says nothing of devices.
Finding device_mismatch(const OperatorFailedEvent& event, const SplitInputs& split,
                        const RunState& state, const DeviceMoves& moves);
std::optional<Finding> device_mismatch(const ErrorEvent& event, const RunState& state);

}  // namespace ddpscope
