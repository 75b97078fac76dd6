#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/device_pass.h"

namespace ddpscope::test {

/// A device without one: reads the tensors at once, on the CPU, and keeps what it read until
/// `finish`.
class FakeDevices final : public DevicePasses {
 public:
  bool is_slow = false;       ///< nothing is ready before `finish`
  bool is_capturing = false;  ///< the stream is recorded into a graph
  std::string missing;        ///< why there is no device
  std::string_view lost;      ///< what the next question meets
  std::string_view refuses;   ///< what the next launch meets
  int current = 0;            ///< of the calling thread
  int launches = 0;
  std::vector<int> capacities;  ///< in tensors, of all that were made

  void finish() { ++finished_; }

  int current_device() override { return current; }
  CUstream_st* stream_of(int) override { return nullptr; }
  std::unique_ptr<DevicePass> make(DeviceValues::Capacity capacity, CUstream_st*) override {
    if (!missing.empty()) throw std::runtime_error(missing);
    if (is_capturing) return nullptr;
    capacities.push_back(capacity.tensors);
    return std::make_unique<Pass>(*this, capacity);
  }

 private:
  class Pass final : public DevicePass {
   public:
    Pass(FakeDevices& devices, DeviceValues::Capacity capacity)
        : devices_(devices), capacity_(capacity) {}

    bool launch(std::span<const TensorData> tensors, CUstream_st*) noexcept override {
      std::int64_t elements = 0;
      for (const TensorData& tensor : tensors) elements += tensor.elements;
      const bool fits =
          static_cast<int>(tensors.size()) <= capacity_.tensors && elements <= capacity_.elements;
      if (!is_ready() || !fits || devices_.is_capturing) return false;
      failure_ = devices_.refuses;
      if (!failure_.empty()) return false;
      results_.resize(tensors.size());
      measure_values(tensors, results_);
      launched_at_ = devices_.finished_;
      is_launched_ = true;
      ++devices_.launches;
      return true;
    }
    bool is_ready() noexcept override {
      if (!is_launched_) return true;
      if (!devices_.lost.empty()) {
        failure_ = devices_.lost;
        results_.clear();
        return true;
      }
      return !devices_.is_slow || devices_.finished_ > launched_at_;
    }
    std::span<const TensorValues> results() noexcept override {
      if (!is_ready()) return {};
      return results_;
    }
    std::string_view failure() const noexcept override { return failure_; }

   private:
    FakeDevices& devices_;
    DeviceValues::Capacity capacity_;
    std::vector<TensorValues> results_;
    std::string_view failure_;
    int launched_at_ = 0;
    bool is_launched_ = false;
  };

  int finished_ = 0;
};

}  // namespace ddpscope::test
