#pragma once

#include <cstdint>

#include "cuda/kernel.cuh"
#include "ops/device/scalar_kind.h"

namespace ddpscope::cuda {

/// How an element lies in memory, and as what it is computed with.
template <ScalarKind>
struct Scalar;

template <>
struct Scalar<ScalarKind::kHalf> {
  using Bits = std::uint16_t;
  using Wide = float;
  __device__ static Wide widen(Bits bits) { return __half2float(__ushort_as_half(bits)); }
  __device__ static Bits narrow(Wide value) { return __half_as_ushort(__float2half_rn(value)); }
};

template <>
struct Scalar<ScalarKind::kBFloat16> {
  using Bits = std::uint16_t;
  using Wide = float;
  __device__ static Wide widen(Bits bits) {
    const std::uint32_t of_float = std::uint32_t{bits} << 16;
    Wide value;
    memcpy(&value, &of_float, sizeof value);
    return value;
  }
  __device__ static Bits narrow(Wide value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
};

template <>
struct Scalar<ScalarKind::kFloat> {
  using Bits = std::uint32_t;
  using Wide = float;
  __device__ static Wide widen(Bits bits) {
    Wide value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  __device__ static Bits narrow(Wide value) {
    Bits bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
};

template <>
struct Scalar<ScalarKind::kDouble> {
  using Bits = std::uint64_t;
  using Wide = double;
  __device__ static Wide widen(Bits bits) {
    Wide value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  __device__ static Bits narrow(Wide value) {
    Bits bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
};

/// Elements that one access moves: 16 bytes, or one.
template <ScalarKind K, int V>
struct alignas(V > 1 ? 16 : sizeof(typename Scalar<K>::Bits)) Elements {
  typename Scalar<K>::Bits bits[V];
};
template <ScalarKind K>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(typename Scalar<K>::Bits));

/// Element j, which is known when this is compiled.
template <ScalarKind K, int V>
__device__ typename Scalar<K>::Wide widen(const Elements<K, V>& elements, int j) {
  if constexpr (K == ScalarKind::kBFloat16 && V > 1) {  // of a word of two, one operation each
    std::uint32_t word;
    memcpy(&word, elements.bits + (j & ~1), sizeof word);
    word = j % 2 == 0 ? word << 16 : word & 0xFFFF0000U;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
  } else {
    return Scalar<K>::widen(elements.bits[j]);
  }
}

template <ScalarKind K, int V>
__device__ Elements<K, V> load_elements(const void* data, std::int64_t at) {
  const auto* const begin = static_cast<const typename Scalar<K>::Bits*>(data) + at;
  if constexpr (V > 1) {
    return load_vector<Elements<K, V>>(begin);
  } else {
    return {{load_one<typename Scalar<K>::Bits>(begin)}};
  }
}

template <ScalarKind K, int V>
__device__ void store_elements(void* data, std::int64_t at, const Elements<K, V>& elements) {
  auto* const begin = static_cast<typename Scalar<K>::Bits*>(data) + at;
  if constexpr (V > 1) {
    store_vector(begin, elements);
  } else {
    store_one(begin, elements.bits[0]);
  }
}

/// Calls `use(std::integral_constant<ScalarKind, K>)` for the kind.
template <class Use>
__host__ __device__ auto with_kind(ScalarKind kind, const Use& use) {
  switch (kind) {
    case ScalarKind::kHalf:
      return use(std::integral_constant<ScalarKind, ScalarKind::kHalf>());
    case ScalarKind::kBFloat16:
      return use(std::integral_constant<ScalarKind, ScalarKind::kBFloat16>());
    case ScalarKind::kFloat:
      return use(std::integral_constant<ScalarKind, ScalarKind::kFloat>());
    default:
      return use(std::integral_constant<ScalarKind, ScalarKind::kDouble>());
  }
}

}  // namespace ddpscope::cuda
