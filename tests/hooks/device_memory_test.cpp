// Against a stand-in for the driver and an allocator with made-up counters.
#include "hooks/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <stdexcept>

#include "tests/support/catch.h"

extern "C" int cuDeviceGetCount(int* devices);

namespace ddpscope {
namespace {
struct Counters final : c10::DeviceAllocator {
  c10::DataPtr allocate(std::size_t) override { return {}; }
  void copy_data(void*, const void*, std::size_t) const override {}
  bool initialized() override { return is_initialized; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    if (throws) throw std::runtime_error("no such device");
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.reserved_bytes[0].current = 100 + device;
    stats.allocated_bytes[0].peak = 200 + device;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  bool is_initialized = true;
  bool throws = false;
};

Counters& counters() {
  static Counters allocator;
  c10::SetAllocator(c10::DeviceType::CUDA, &allocator);
  return allocator;
}
}  // namespace

TEST_CASE("A GPU is known by the UUID that the driver gives", "[hooks]") {
  int devices = 0;
  REQUIRE(cuDeviceGetCount(&devices) == 0);  // the stand-in is loaded
  const auto identity = identify_device(1);
  REQUIRE(identity.has_value());
  CHECK(identity->uuid == "GPU-5f0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b");
  CHECK(identity->visible_count == 3);
  CHECK(identify_device(0)->uuid != identity->uuid);
  CHECK(!identify_device(2).has_value());
}

TEST_CASE("The allocator is asked about devices with a context alone", "[hooks]") {
  counters();
  const auto devices = read_device_memory();
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].index == 0);
  CHECK(!devices[0].has_context);
  CHECK(devices[0].reserved_bytes == 0);
  CHECK(devices[1].has_context);
  CHECK(devices[1].reserved_bytes == 101);
  CHECK(devices[1].peak_bytes == 201);
}

TEST_CASE("An allocator that is not ready is not asked, and one that throws costs nothing",
          "[hooks]") {
  Counters& allocator = counters();
  allocator.is_initialized = false;
  REQUIRE(read_device_memory().size() == 2);
  CHECK(read_device_memory()[1].reserved_bytes == 0);
  allocator.is_initialized = true;
  allocator.throws = true;
  CHECK(read_device_memory().empty());
  allocator.throws = false;
}

}  // namespace ddpscope
