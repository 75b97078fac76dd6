#include "plugin/device_of_rank.h"

#include <cstdlib>

#include "tests/support/catch.h"

namespace ddpscope::test::device_of_rank_test {
namespace {
// Two devices that each hold their number of bytes.
std::optional<DeviceIdentity> identify(std::int64_t index) noexcept {
  if (index > 1) return std::nullopt;
  return DeviceIdentity{.uuid = "GPU-" + std::to_string(index), .visible_count = 2};
}
std::vector<DeviceMemory> memory() noexcept {
  return {{.index = 0, .reserved_bytes = 0}, {.index = 1, .reserved_bytes = 1}};
}
std::vector<DeviceMemory> memory_of_one() noexcept { return {{.index = 0}}; }

TreeEvent tree(const std::vector<std::pair<std::string, std::int64_t>>& tensors) {
  TreeEvent event;
  for (const auto& [device, elements] : tensors) {
    event.tensors.push_back({.tensor = {.device = device, .elements = elements}});
  }
  return event;
}
const TreeEvent kOnDevices = tree({{"cpu", 90}, {"cuda:0", 3}, {"cuda:1", 4}});
}  // namespace

TEST_CASE("The run names the GPU with most of the first model on one", "[worker]") {
  DeviceOfRank device({.identify = identify, .memory = memory});
  RunRecord run{.device = "cpu"};
  CHECK(!device.see(tree({{"cpu", 9}, {"meta", 9}}), run));
  CHECK(!device.see(tree({{"cuda:7", 9}}), run));
  CHECK(run.device == "cpu");
  ::setenv("CUDA_VISIBLE_DEVICES", "4,5", 1);
  CHECK(device.see(kOnDevices, run));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(run.device == "GPU-1");
  CHECK(run.device_index == 1);
  CHECK(run.visible_devices == 2);
  CHECK(run.device_mask == "CUDA_VISIBLE_DEVICES");
  CHECK(!device.see(tree({{"cuda:0", 9}}), run));
  CHECK(run.device == "GPU-1");
}

TEST_CASE("Memory is read in the first cycles and then seldom", "[worker]") {
  DeviceOfRank device({.identify = identify, .memory = memory});
  RunRecord run;
  CHECK(device.read({.step = 1, .cycle = 1}) == nullptr);
  device.see(kOnDevices, run);
  const auto event = device.read({.step = 30, .cycle = 16});
  REQUIRE(event != nullptr);
  CHECK(event->at.step == 30);
  CHECK(event->devices.size() == 2);
  CHECK(device.read({.step = 30, .cycle = 17}) == nullptr);
  CHECK(device.read({.step = 90, .cycle = 64}) != nullptr);
}

TEST_CASE("Where there is one device nothing is read", "[worker]") {
  RunRecord run;
  DeviceOfRank device({.identify = identify, .memory = memory_of_one});
  device.see(kOnDevices, run);
  CHECK(device.read({.step = 1, .cycle = 1}) == nullptr);
  DeviceOfRank blind({});
  CHECK(!blind.see(kOnDevices, run));
  CHECK(blind.read({.step = 1, .cycle = 1}) == nullptr);
}

}  // namespace ddpscope::test::device_of_rank_test
