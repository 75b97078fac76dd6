#include "hooks/device_readings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

namespace ddpscope {
namespace {
constexpr int kLeastTensors = 1024;
constexpr std::int64_t kLeastElements = std::int64_t{1} << 24;

DeviceValues::Capacity needed_for(const std::vector<Wanted>& wanted) {
  DeviceValues::Capacity needed{.tensors = static_cast<int>(wanted.size()), .elements = 0};
  for (const Wanted& one : wanted) needed.elements += one.data.elements;
  return needed;
}

bool holds(const DeviceValues::Capacity& capacity, const DeviceValues::Capacity& needed) {
  return capacity.tensors >= needed.tensors && capacity.elements >= needed.elements;
}

// Room for the leaves that did not take part this time, so that it seldom grows.
DeviceValues::Capacity with_room(const DeviceValues::Capacity& needed) {
  return {.tensors = std::max(kLeastTensors, 2 * needed.tensors),
          .elements = std::max(kLeastElements, 2 * needed.elements)};
}

ValueRange range_in(const TensorValues& values, std::int64_t elements) {
  return {.elements = elements,
          .nan_count = values.nan_count,
          .inf_count = values.inf_count,
          .absmax = values.absmax};
}

// The bits of one and of minus infinity.
TensorValues known_values(ScalarKind kind, bool is_one) {
  std::uint64_t bits = 0;
  switch (kind) {
    case ScalarKind::kHalf:
      bits = is_one ? 0x3C00 : 0xFC00;
      break;
    case ScalarKind::kBFloat16:
      bits = is_one ? 0x3F80 : 0xFF80;
      break;
    case ScalarKind::kFloat:
      bits = std::bit_cast<std::uint32_t>(is_one ? 1.0F : -std::numeric_limits<float>::infinity());
      break;
    case ScalarKind::kDouble:
      bits = std::bit_cast<std::uint64_t>(is_one ? 1.0 : -std::numeric_limits<double>::infinity());
      break;
  }
  return measure_values({.data = &bits, .elements = 1, .kind = kind});
}
}  // namespace

double number_of(const TensorValues& values, ScalarKind kind) {
  if (values.nan_count > 0) return std::numeric_limits<double>::quiet_NaN();
  if (values.inf_count > 0) {
    const bool negative = values.fingerprint == known_values(kind, false).fingerprint;
    return negative ? -std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::infinity();
  }
  return values.sketch[0] * known_values(kind, true).sketch[0];  // which is 1 or -1
}

std::uint64_t DeviceReadings::launch(const Place& place, const std::vector<Wanted>& wanted) {
  Device& device = devices_[place.device];
  if (wanted.empty() || device.is_off) return 0;
  Batch* const batch = free_batch(device, place, needed_for(wanted));
  if (batch == nullptr) return 0;
  std::vector<TensorData> tensors;
  tensors.reserve(wanted.size());
  for (const Wanted& one : wanted) tensors.push_back(one.data);
  if (!batch->pass->launch(tensors, place.stream)) {
    if (const auto failure = batch->pass->failure(); !failure.empty()) {
      turn_off(place.device, device, std::string(failure));
    }
    return 0;
  }
  batch->wanted = wanted;
  batch->at = place.at;
  batch->number = ++last_number_;
  return batch->number;
}

DeviceReadings::Batch* DeviceReadings::free_batch(Device& device, const Place& place,
                                                  DeviceValues::Capacity needed) {
  device.batches.resize(kUnderWay);
  const auto batch = std::ranges::find(device.batches, std::uint64_t{0}, &Batch::number);
  if (batch == device.batches.end()) return nullptr;
  const bool fits = batch->pass != nullptr && holds(batch->capacity, needed);
  if (!fits && !make_pass(*batch, place, needed)) return nullptr;
  return &*batch;
}

bool DeviceReadings::make_pass(Batch& batch, const Place& place, DeviceValues::Capacity needed) {
  try {
    const DeviceValues::Capacity capacity = with_room(needed);
    auto made = passes_.make(capacity, place.stream);
    if (made == nullptr) return false;
    if (batch.pass != nullptr) outgrown_.push_back(std::move(batch.pass));
    batch.pass = std::move(made);
    batch.capacity = capacity;
    return true;
  } catch (const std::exception& error) {
    turn_off(place.device, devices_[place.device], error.what());
    return false;
  }
}

void DeviceReadings::turn_off(int number, Device& device, std::string why) {
  if (std::exchange(device.is_off, true)) return;
  failures_.push_back("cuda:" + std::to_string(number) + ": " + std::move(why));
}

std::optional<std::string> DeviceReadings::take_failure() {
  if (failures_.empty()) return std::nullopt;
  std::string failure = std::move(failures_.back());
  failures_.pop_back();
  return failure;
}

std::unique_ptr<DeviceValuesEvent> DeviceReadings::take(int number) {
  const auto known = devices_.find(number);
  if (known == devices_.end()) return nullptr;
  Device& device = known->second;
  Batch* oldest = nullptr;
  for (Batch& batch : device.batches) {
    const bool is_older = oldest == nullptr || batch.number < oldest->number;
    if (batch.number != 0 && is_older) oldest = &batch;
  }
  if (oldest == nullptr || !oldest->pass->is_ready()) return nullptr;
  auto event = std::make_unique<DeviceValuesEvent>();
  event->batch = std::exchange(oldest->number, 0);
  const auto results = oldest->pass->results();
  if (const auto failure = oldest->pass->failure(); !failure.empty()) {
    turn_off(number, device, std::string(failure));
  }
  for (std::size_t i = 0; i < std::min(results.size(), oldest->wanted.size()); ++i) {
    tell(*oldest, i, results[i], device, *event);
  }
  return event;
}

void DeviceReadings::tell(const Batch& batch, std::size_t i, const TensorValues& values,
                          Device& device, DeviceValuesEvent& event) {
  const Wanted& wanted = batch.wanted[i];
  if (wanted.is_loss) {
    const double value = number_of(values, wanted.data.kind);
    if (wanted.only_if_bad && std::isfinite(value)) return;
    event.losses.push_back({.at = batch.at, .loss = wanted.tensor, .value = value});
    return;
  }
  const ValueRange range = range_in(values, wanted.data.elements);
  if (!wanted.adds_up) {
    event.gradients.push_back({.at = batch.at,
                               .tensor = wanted.tensor,
                               .values = range,
                               .sum_of_squares = values.sum_of_squares,
                               .zero_count = values.zero_count,
                               .dtype = wanted.dtype});
  }
  if (range.is_finite()) {
    device.spoilt.erase(wanted.tensor);
    return;
  }
  // A sum stays so, whatever is added to it: that was told.
  const bool is_new = device.spoilt.insert(wanted.tensor).second;
  if (!wanted.adds_up || is_new) {
    event.nonfinite.push_back({.at = batch.at, .tensor = wanted.tensor, .values = range});
  }
}

std::vector<int> DeviceReadings::waiting() const {
  std::vector<int> numbers;
  for (const auto& [number, device] : devices_) {
    const auto is_under_way = [](const Batch& batch) { return batch.number != 0; };
    if (std::ranges::any_of(device.batches, is_under_way)) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace ddpscope
