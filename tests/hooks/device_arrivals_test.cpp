#include "hooks/device_arrivals.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {

/// The devices and leaves that the backward of a thread brought: `0: 1 2; 1: 3; `.
std::string ended(DeviceArrivals& arrivals, std::uint64_t thread) {
  std::string text;
  for (const auto& list : arrivals.end(thread)) {
    text += std::to_string(list.device) + ":";
    for (const Arrival& arrival : list.arrivals) text += " " + std::to_string(arrival.leaf);
    text += "; ";
  }
  return text;
}

Arrival leaf(TensorId id) { return {.slot = nullptr, .leaf = id}; }

TEST_CASE("A backward that runs alone brought all, on every device, in their order",
          "[device_arrivals]") {
  DeviceArrivals arrivals;
  arrivals.begin(1, -1);
  arrivals.add(0, leaf(7));
  arrivals.add(1, leaf(3));
  arrivals.add(0, leaf(5));
  CHECK(ended(arrivals, 1) == "0: 7 5; 1: 3; ");
  CHECK(ended(arrivals, 1).empty());
}

TEST_CASE("What no backward that we saw brought is nobody's", "[device_arrivals]") {
  DeviceArrivals arrivals;
  arrivals.add(0, leaf(1));
  arrivals.begin(1, 0);
  CHECK(ended(arrivals, 1).empty());
}

TEST_CASE("Of two backwards at once each brought what is on its own device", "[device_arrivals]") {
  DeviceArrivals arrivals;
  arrivals.begin(1, 0);
  arrivals.begin(2, 1);
  arrivals.add(1, leaf(20));
  arrivals.add(0, leaf(10));
  arrivals.add(2, leaf(30));  // neither's
  CHECK(ended(arrivals, 1) == "0: 10; ");
  arrivals.add(0, leaf(11));  // only the other one is left
  CHECK(ended(arrivals, 2) == "1: 20; 0: 11; ");
}

TEST_CASE("Of two backwards at once on one device neither is said to have brought anything",
          "[device_arrivals]") {
  DeviceArrivals arrivals;
  arrivals.begin(1, 0);
  arrivals.add(0, leaf(10));
  arrivals.begin(2, 0);
  arrivals.add(0, leaf(11));
  CHECK(ended(arrivals, 1) == "0: 10; ");
  CHECK(ended(arrivals, 2).empty());
}

TEST_CASE("A backward whose end nobody saw is over when its thread begins another",
          "[device_arrivals]") {
  DeviceArrivals arrivals;
  arrivals.begin(1, 0);
  arrivals.add(0, leaf(10));
  arrivals.begin(1, 0);
  arrivals.add(0, leaf(11));
  CHECK(ended(arrivals, 1) == "0: 11; ");
}

TEST_CASE("A list of gradients has an end", "[device_arrivals]") {
  DeviceArrivals arrivals;
  arrivals.begin(1, 0);
  for (std::size_t i = 0; i < DeviceArrivals::kMax + 2; ++i) arrivals.add(0, leaf(1));
  const auto lists = arrivals.end(1);
  REQUIRE(lists.size() == 1);
  CHECK(lists.front().arrivals.size() == DeviceArrivals::kMax);
}

}  // namespace
}  // namespace ddpscope
