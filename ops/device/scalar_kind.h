#pragma once

#include <cstdint>

namespace ddpscope::cuda {

/// In the order of the kinds of the CPU.
enum class ScalarKind : std::uint8_t { kHalf, kBFloat16, kFloat, kDouble };

constexpr int bytes_of(ScalarKind kind) {
  return kind == ScalarKind::kDouble ? 8 : kind == ScalarKind::kFloat ? 4 : 2;
}

}  // namespace ddpscope::cuda
