#include "ops/batch_norm/cpu/kernel_table.h"

namespace ddpscope::batch_norm {
namespace {

struct Portable {
  static constexpr int kBytes = 16;
  using Vector = Lanes<float, kBytes>;

  static void widen(const Half* from, Vector& to) {
    float numbers[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      numbers[i] = static_cast<float>(__builtin_bit_cast(_Float16, from[i].bits));
    }
    to = Vector::load(numbers);
  }
  static void narrow(const Vector& from, Half* to) {
    float numbers[kLanes];
    from.store(numbers);
    for (int i = 0; i < kLanes; ++i) {
      to[i].bits = __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(numbers[i]));
    }
  }
  static void widen(const BFloat16* from, Vector& to) {
    float numbers[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      numbers[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(from[i].bits) << 16);
    }
    to = Vector::load(numbers);
  }
  static void narrow(const Vector& from, BFloat16* to) {
    float numbers[kLanes];
    from.store(numbers);
    for (int i = 0; i < kLanes; ++i) {
      const auto bits = __builtin_bit_cast(std::uint32_t, numbers[i]);
      const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
      to[i].bits = static_cast<std::uint16_t>(numbers[i] != numbers[i] ? 0x7FC0 : rounded);
    }
  }
};

}  // namespace

const KernelTable kPortableKernels = kKernelsOf<Portable>;

}  // namespace ddpscope::batch_norm
