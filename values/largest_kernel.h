#pragma once

#include <cstdint>

#include "values/block.h"

// The magnitude bits of the largest element: they are ordered as the magnitudes are, and NaN stands
// above Inf. A plain loop, which the compiler turns into vectors of the processor that the file is
// compiled for; a member of a template over `Path`, so that no two files share it.
namespace ddpscope::values {

template <class Path>
struct LargestOf {
  template <class Bits>
  static std::uint64_t largest(const void* data, std::int64_t elements) {
    constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
    const auto* bytes = static_cast<const unsigned char*>(data);
    Bits result = 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      Bits bits;
      __builtin_memcpy(&bits, bytes + i * static_cast<std::int64_t>(sizeof bits), sizeof bits);
      bits &= kMagnitude;
      result = bits > result ? bits : result;
    }
    return result;
  }
};

template <class Path>
inline constexpr LargestKernels kLargestOf = {{LargestOf<Path>::template largest<std::uint16_t>,
                                               LargestOf<Path>::template largest<std::uint16_t>,
                                               LargestOf<Path>::template largest<std::uint32_t>,
                                               LargestOf<Path>::template largest<std::uint64_t>}};

}  // namespace ddpscope::values
