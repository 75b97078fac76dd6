#pragma once

#include "ops/device/place.h"

namespace ddpscope::test {

/// Where the tests of this program run kernels: on the CPU, one thread after the other, or on a
/// GPU. Tensors are of the CPU in both: the GPU sees the memory, too, and is waited for.
/// Skips the program where there is no such device.
const device::Place& test_place();

}  // namespace ddpscope::test
