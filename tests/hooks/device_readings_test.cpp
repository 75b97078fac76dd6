#include "hooks/device_readings.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/fake_device.h"

namespace ddpscope::test {
namespace {
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// A gradient of four elements, which must outlive the launch only.
class Gradient {
 public:
  explicit Gradient(TensorId leaf, float last = 4) : leaf_(leaf), elements_{1, 0, 3, last} {}
  Wanted wanted(bool adds_up = false) const {
    return {.tensor = leaf_,
            .data = {.data = elements_.data(), .elements = 4},
            .dtype = "float32",
            .adds_up = adds_up};
  }

 private:
  TensorId leaf_;
  std::array<float, 4> elements_;
};

DeviceReadings::Place at_step(std::int64_t step, int device = 0) {
  return {.device = device, .at = {.step = step, .cycle = step, .thread = 1}};
}

TEST_CASE("What a device tells is of the step in which it was asked", "[device_readings]") {
  FakeDevices devices;
  DeviceReadings readings(devices);
  const std::uint64_t batch =
      readings.launch(at_step(3), {Gradient(7).wanted(), Gradient(8, kNan).wanted()});
  CHECK(batch != 0);
  CHECK(readings.waiting() == std::vector<int>{0});

  const auto told = readings.take(0);
  REQUIRE(told != nullptr);
  CHECK(told->batch == batch);
  CHECK(told->losses.empty());
  REQUIRE(told->gradients.size() == 2);
  const GradientValuesEvent& gradient = told->gradients.front();
  CHECK(gradient.tensor == 7);
  CHECK(gradient.at.step == 3);
  CHECK(gradient.values.elements == 4);
  CHECK(gradient.values.absmax == 4);
  CHECK(gradient.sum_of_squares == 26);
  CHECK(gradient.zero_count == 1);
  CHECK(gradient.dtype == "float32");
  REQUIRE(told->nonfinite.size() == 1);
  CHECK(told->nonfinite.front().tensor == 8);
  CHECK(told->nonfinite.front().at.step == 3);
  CHECK(told->nonfinite.front().values.nan_count == 1);
  CHECK(readings.waiting().empty());
  CHECK(readings.take(0) == nullptr);
}

TEST_CASE("Results that come late are told later, the oldest first, and nobody waits for them",
          "[device_readings]") {
  FakeDevices devices;
  devices.is_slow = true;
  DeviceReadings readings(devices);
  const Gradient gradient(7);
  const std::uint64_t first = readings.launch(at_step(1), {gradient.wanted()});
  const std::uint64_t second = readings.launch(at_step(2), {gradient.wanted()});
  CHECK(first != 0);
  CHECK(second > first);
  CHECK(readings.take(0) == nullptr);
  CHECK(readings.launch(at_step(3), {gradient.wanted()}) == 0);  // both are under way
  CHECK(devices.launches == 2);
  devices.finish();
  const auto one = readings.take(0);
  REQUIRE(one != nullptr);
  CHECK(one->batch == first);
  const auto two = readings.take(0);
  REQUIRE(two != nullptr);
  CHECK(two->batch == second);
  CHECK(two->gradients.front().at.step == 2);
  CHECK(readings.launch(at_step(4), {gradient.wanted()}) > second);
}

TEST_CASE("Memory is taken for the first lists and then only for much larger ones",
          "[device_readings]") {
  FakeDevices devices;
  DeviceReadings readings(devices);
  const Gradient gradient(7);
  const auto launch = [&](std::size_t tensors) {
    const bool launched =
        readings.launch(at_step(1), std::vector<Wanted>(tensors, gradient.wanted())) != 0;
    while (readings.take(0) != nullptr) continue;
    return launched;
  };
  CHECK(launch(3));
  CHECK(launch(1000));
  CHECK(devices.capacities == std::vector<int>{1024});
  CHECK(launch(1025));
  CHECK(launch(2000));
  CHECK(devices.capacities == std::vector<int>{1024, 2050});
}

TEST_CASE("While a graph is captured nothing is asked, and the device stays in use",
          "[device_readings]") {
  FakeDevices devices;
  DeviceReadings readings(devices);
  const Gradient gradient(7);
  devices.is_capturing = true;
  CHECK(readings.launch(at_step(1), {gradient.wanted()}) == 0);
  CHECK(devices.capacities.empty());
  devices.is_capturing = false;
  CHECK(readings.launch(at_step(2), {gradient.wanted()}) != 0);
  REQUIRE(readings.take(0) != nullptr);
  devices.is_capturing = true;
  CHECK(readings.launch(at_step(3), {gradient.wanted()}) == 0);
  devices.is_capturing = false;
  CHECK(readings.launch(at_step(4), {gradient.wanted()}) != 0);
  CHECK_FALSE(readings.take_failure().has_value());
}

TEST_CASE("A device that is lost tells empty batches, is named once and never asked again",
          "[device_readings]") {
  FakeDevices devices;
  devices.is_slow = true;
  DeviceReadings readings(devices);
  const Gradient gradient(7, kNan);
  const std::uint64_t first = readings.launch(at_step(1), {gradient.wanted()});
  const std::uint64_t second = readings.launch(at_step(2), {gradient.wanted()});
  devices.lost = "cudaErrorIllegalAddress";
  for (const std::uint64_t batch : {first, second}) {
    const auto told = readings.take(0);
    REQUIRE(told != nullptr);
    CHECK(told->batch == batch);
    CHECK(told->gradients.empty());
    CHECK(told->nonfinite.empty());
  }
  CHECK(readings.take_failure() == "cuda:0: cudaErrorIllegalAddress");
  CHECK_FALSE(readings.take_failure().has_value());
  devices.lost = {};
  CHECK(readings.launch(at_step(3), {gradient.wanted()}) == 0);
  CHECK(readings.launch(at_step(3, 1), {gradient.wanted()}) != 0);  // another device goes on
}

TEST_CASE("A launch that fails turns its device off", "[device_readings]") {
  FakeDevices devices;
  DeviceReadings readings(devices);
  const Gradient gradient(7);
  devices.refuses = "cudaErrorInvalidConfiguration";
  CHECK(readings.launch(at_step(1), {gradient.wanted()}) == 0);
  CHECK(readings.take_failure() == "cuda:0: cudaErrorInvalidConfiguration");
  devices.refuses = {};
  CHECK(readings.launch(at_step(2), {gradient.wanted()}) == 0);
  CHECK(devices.launches == 0);
  CHECK(readings.waiting().empty());
}

TEST_CASE("Without a device the reason is told once", "[device_readings]") {
  FakeDevices devices;
  devices.missing = "this build of ddpscope has no CUDA part";
  DeviceReadings readings(devices);
  CHECK(readings.launch(at_step(1), {Gradient(7).wanted()}) == 0);
  CHECK(readings.take_failure() == "cuda:0: this build of ddpscope has no CUDA part");
  CHECK(readings.launch(at_step(2), {Gradient(7).wanted()}) == 0);
  CHECK_FALSE(readings.take_failure().has_value());
}

TEST_CASE("Each device has its own lists", "[device_readings]") {
  FakeDevices devices;
  devices.is_slow = true;
  DeviceReadings readings(devices);
  for (const int device : {0, 1}) {
    CHECK(readings.launch(at_step(1, device), {Gradient(7).wanted()}) != 0);
    CHECK(readings.launch(at_step(2, device), {Gradient(8).wanted()}) != 0);
  }
  CHECK(readings.waiting() == std::vector<int>{0, 1});
  devices.finish();
  REQUIRE(readings.take(1) != nullptr);
  const auto told = readings.take(1);
  REQUIRE(told != nullptr);
  CHECK(told->gradients.front().tensor == 8);
  CHECK(readings.waiting() == std::vector<int>{0});
}

TEST_CASE("A sum is not told as the gradient that arrived, and its NaN only once",
          "[device_readings]") {
  FakeDevices devices;
  DeviceReadings readings(devices);
  const auto told_of = [&](float last, bool adds_up) {
    const Gradient gradient(7, last);
    REQUIRE(readings.launch(at_step(1), {gradient.wanted(adds_up)}) != 0);
    return readings.take(0);
  };
  CHECK(told_of(1, true)->gradients.empty());
  CHECK(told_of(kInf, true)->nonfinite.size() == 1);
  CHECK(told_of(kInf, true)->nonfinite.empty());
  CHECK(told_of(kInf, false)->nonfinite.size() == 1);
  CHECK(told_of(1, false)->nonfinite.empty());
  CHECK(told_of(kNan, true)->nonfinite.size() == 1);
}

TEST_CASE("The number of a loss comes back from what a pass tells of it", "[device_readings]") {
  FakeDevices devices;
  DeviceReadings readings(devices);
  for (const float value : {0.0F, 2.5F, -3.25F, 1e-30F, kInf, -kInf}) {
    const Wanted loss{.tensor = 9, .data = {.data = &value, .elements = 1}, .is_loss = true};
    REQUIRE(readings.launch(at_step(5), {loss}) != 0);
    const auto told = readings.take(0);
    REQUIRE(told->losses.size() == 1);
    CHECK(told->losses.front().value == value);
    CHECK(told->losses.front().loss == 9);
    CHECK(told->losses.front().at.step == 5);
    CHECK(told->nonfinite.empty());
  }
  const Wanted loss{.tensor = 9, .data = {.data = &kNan, .elements = 1}, .is_loss = true};
  REQUIRE(readings.launch(at_step(5), {loss}) != 0);
  CHECK(std::isnan(readings.take(0)->losses.front().value));
}

TEST_CASE("In a cycle in which hooks rest a loss is told only where it is not finite",
          "[device_readings]") {
  FakeDevices devices;
  DeviceReadings readings(devices);
  for (const float value : {1.0F, kInf}) {
    const Wanted loss{
        .tensor = 9, .data = {.data = &value, .elements = 1}, .is_loss = true, .only_if_bad = true};
    REQUIRE(readings.launch(at_step(5), {loss}) != 0);
    CHECK(readings.take(0)->losses.size() == (std::isfinite(value) ? 0 : 1));
  }
}

TEST_CASE("The number of a loss of any floating type comes back", "[device_readings]") {
  const auto number = [](auto bits, ScalarKind kind) {
    return number_of(measure_values({.data = &bits, .elements = 1, .kind = kind}), kind);
  };
  CHECK(number(std::uint16_t{0xC100}, ScalarKind::kHalf) == -2.5);
  CHECK(number(std::uint16_t{0xC020}, ScalarKind::kBFloat16) == -2.5);
  CHECK(number(-2.5, ScalarKind::kDouble) == -2.5);
  CHECK(number(std::uint16_t{0xFC00}, ScalarKind::kHalf) == -HUGE_VAL);
  CHECK(number(std::uint16_t{0x7C00}, ScalarKind::kHalf) == HUGE_VAL);
  CHECK(number(std::uint16_t{0xFF80}, ScalarKind::kBFloat16) == -HUGE_VAL);
  CHECK(number(-HUGE_VAL, ScalarKind::kDouble) == -HUGE_VAL);
}

}  // namespace
}  // namespace ddpscope::test
