#include <stdexcept>

#include "tests/support/catch.h"
#include "values/device_values.h"

using namespace ddpscope;

TEST_CASE("Without a GPU DeviceValues says why and does not start", "[values]") {
  if (DeviceValues::why_unavailable().empty()) return;
  INFO(DeviceValues::why_unavailable());
  CHECK_THROWS_AS(DeviceValues({.tensors = 1, .elements = 1}), std::runtime_error);
}
