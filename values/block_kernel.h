#pragma once

#include <immintrin.h>

#include <cstdint>

#include "values/block.h"

// The lanes of values/lane.h side by side, in the vectors of `Path`. Every function is a member of
// a template over it, so that no two files share one.
namespace ddpscope::values {

template <ScalarKind Kind>
struct ElementOf;
template <>
struct ElementOf<ScalarKind::kHalf> {
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7C00;
};
template <>
struct ElementOf<ScalarKind::kBFloat16> {
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7F80;
};
template <>
struct ElementOf<ScalarKind::kFloat> {
  using Bits = std::uint32_t;
  static constexpr Bits kInfinity = 0x7F800000;
};
template <>
struct ElementOf<ScalarKind::kDouble> {
  using Bits = std::uint64_t;
  static constexpr Bits kInfinity = 0x7FF0000000000000;
};

template <class Path, ScalarKind Kind>
class KernelOf {
 public:
  static BlockValues measure(const void* data, int groups, std::uint64_t block_key) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    KernelOf sums(block_key);
    for (int group = 0; group < groups; ++group, bytes += kGroupBytes) {
      prefetch(bytes);
      sums.add_bits(bytes, kKeys.words + group * (kGroupBytes / 8));
      sums.add_numbers(bytes, kSigns.of + group * kGroupElements);
    }
    return sums.result(block_key);
  }

  static std::uint64_t bits(const void* data, int groups, std::uint64_t block_key) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    KernelOf sums(block_key);
    for (int group = 0; group < groups; ++group, bytes += kGroupBytes) {
      prefetch(bytes);
      for (int at = 0; at < kGroupBytes; at += kVectorBytes) {
        const std::uint64_t* keys = kKeys.words + (group * kGroupBytes + at) / 8;
        sums.add_word(Path::load(bytes + at), Path::load(keys));
      }
    }
    return sums.fingerprint();
  }

 private:
  using Bits = typename ElementOf<Kind>::Bits;
  using Vector = typename Path::Integers;
  using Doubles = typename Path::Doubles;
  static constexpr bool kIsDouble = Kind == ScalarKind::kDouble;
  static constexpr int kElementBytes = sizeof(Bits);
  static constexpr int kGroupBytes = kElementBytes * kGroupElements;
  static constexpr int kVectorBytes = sizeof(Vector);
  // Found by trial. A line comes to L2 first: more that wait for memory fit there than at L1.
  static constexpr int kNearBytes = 1536;
  static constexpr int kFarBytes = 5120;

  explicit KernelOf(std::uint64_t block_key) : block_key_(Path::broadcast(block_key)) {}

  // Past the end of the tensor, too, where it does nothing.
  static void prefetch(const unsigned char* bytes) {
    const auto* line = reinterpret_cast<const char*>(bytes);
    for (int at = 0; at < kGroupBytes; at += 64) {
      _mm_prefetch(line + at + kNearBytes, _MM_HINT_T0);
      _mm_prefetch(line + at + kFarBytes, _MM_HINT_T1);
    }
  }

  void add_word(Vector word, Vector key) {
    const Vector keyed = Path::exclusive_or(word, key, block_key_);
    products_ = Path::add64(products_, Path::product_of_halves(keyed));
    halves_ = Path::add32(halves_, word);
  }

  void add_bits(const unsigned char* bytes, const std::uint64_t* keys) {
    for (int at = 0; at < kGroupBytes; at += kVectorBytes) {
      const Vector word = Path::load(bytes + at);
      add_word(word, Path::load(keys + at / 8));
      const Vector magnitude = Path::template magnitude<kElementBytes>(word);
      largest_ = Path::template larger<kElementBytes>(largest_, magnitude);
      zeros_ = Path::template count_zeros<kElementBytes>(zeros_, magnitude);
    }
  }

  void add_numbers(const unsigned char* bytes, const double* signs) {
    alignas(64) unsigned char floats[kElementBytes == 2 ? 4 * kGroupElements : 1];
    if constexpr (kElementBytes == 2) bytes = widen(bytes, floats);
    for (int row = 0; row < kGroupRows; ++row, signs += kLanes) {
      const Doubles x = kIsDouble ? Path::doubles(bytes + row * kLanes * 8)
                                  : Path::doubles_of_floats(bytes + row * kLanes * 4);
      rows_[row] = Path::multiply_add(x, Path::doubles(signs), rows_[row]);
      // The square of 24 bits is exact in double, so the fused sum rounds as the plain one.
      squares_[row] = kIsDouble ? Path::add(squares_[row], Path::multiply(x, x))
                                : Path::multiply_add(x, x, squares_[row]);
    }
  }

  // To memory: reading doubles from there costs less than taking a vector of floats apart.
  static const unsigned char* widen(const unsigned char* bytes, unsigned char* floats) {
    for (int i = 0; i < kGroupElements; i += Path::kFloats) {
      if constexpr (Kind == ScalarKind::kHalf) {
        Path::widen_half(bytes + 2 * i, floats + 4 * i);
      } else {
        Path::widen_bfloat16(bytes + 2 * i, floats + 4 * i);
      }
    }
    return floats;
  }

  std::uint64_t fingerprint() const {
    constexpr int kWords = kVectorBytes / 8;
    alignas(64) std::uint64_t products[kWords], halves[kWords];
    Path::store(products, products_);
    Path::store(halves, halves_);
    std::uint64_t sum = 0;
    for (int i = 0; i < kWords; ++i) sum += products[i] + ((halves[i] + (halves[i] >> 32)) << 32);
    return sum;
  }

  // Each lane of each width counts few enough for the sum of all lanes.
  std::int64_t zero_count() const {
    constexpr int kWords = kVectorBytes / 8;
    alignas(64) std::uint64_t zeros[kWords];
    Path::store(zeros, zeros_);
    std::uint64_t sum = 0;
    for (const std::uint64_t word : zeros) sum += word;
    constexpr std::uint64_t kOneInEach = ~std::uint64_t{0} / static_cast<Bits>(~Bits{0});
    return static_cast<std::int64_t>(sum * kOneInEach >> (64 - 8 * kElementBytes));
  }

  BlockValues result(std::uint64_t block_key) const {
    const std::uint64_t highest = Path::template largest_of<kElementBytes>(largest_);
    BlockValues block;
    block.has_nonfinite = highest >= ElementOf<Kind>::kInfinity;
    block.values.absmax = number_of(static_cast<Bits>(highest));
    block.values.zero_count = zero_count();
    block.values.fingerprint = fingerprint();
    add_sums(block_key, block.values);
    return block;
  }

  void add_sums(std::uint64_t block_key, TensorValues& values) const {
    const Doubles sum01 = Path::add(rows_[0], rows_[1]), sum23 = Path::add(rows_[2], rows_[3]);
    const Doubles difference01 = Path::subtract(rows_[0], rows_[1]);
    const Doubles difference23 = Path::subtract(rows_[2], rows_[3]);
    const __m128d sketch[kSketchSize] = {two_lanes(Path::add(sum01, sum23)),
                                         two_lanes(Path::add(difference01, difference23)),
                                         two_lanes(Path::subtract(sum01, sum23)),
                                         two_lanes(Path::subtract(difference01, difference23))};
    // kSigns lacks the key of the block, whose two bits sign the even and the odd lanes.
    const double even = (block_key >> 31 & 1) != 0 ? -1 : 1;
    const double odd = (block_key >> 63) != 0 ? -1 : 1;
    for (int k = 0; k < kSketchSize; ++k) {
      const double sum = even * first_of(sketch[k]) + odd * second_of(sketch[k]);
      values.sketch[k] = sum + 0.0;  // not -0, which the plain sum never is
    }
    const __m128d squares = two_lanes(
        Path::add(Path::add(squares_[0], squares_[1]), Path::add(squares_[2], squares_[3])));
    values.sum_of_squares = first_of(squares) + second_of(squares);
  }

  static __m128d two_lanes(Doubles eight) {
    const __m256d four = Path::four_lanes(eight);
    return _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  }
  static double first_of(__m128d two) { return _mm_cvtsd_f64(two); }
  static double second_of(__m128d two) { return _mm_cvtsd_f64(_mm_unpackhi_pd(two, two)); }

  static double number_of(Bits bits) {
    if constexpr (kIsDouble) {
      return __builtin_bit_cast(double, bits);
    } else if constexpr (Kind == ScalarKind::kHalf) {
      return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
    } else {
      return __builtin_bit_cast(float, std::uint32_t{bits} << (32 - 8 * kElementBytes));
    }
  }

  Vector block_key_;
  Vector products_ = Path::broadcast(0);  // of the fingerprint
  Vector halves_ = Path::broadcast(0);    // the same
  Vector largest_ = Path::broadcast(0);   // magnitude bits
  Vector zeros_ = Path::broadcast(0);
  Doubles rows_[kGroupRows] = {Path::zero(), Path::zero(), Path::zero(), Path::zero()};
  Doubles squares_[kGroupRows] = {Path::zero(), Path::zero(), Path::zero(), Path::zero()};
};

template <class Path>
inline constexpr BlockKernels kKernelsOf = {
    {KernelOf<Path, ScalarKind::kHalf>::measure, KernelOf<Path, ScalarKind::kBFloat16>::measure,
     KernelOf<Path, ScalarKind::kFloat>::measure, KernelOf<Path, ScalarKind::kDouble>::measure},
    {KernelOf<Path, ScalarKind::kHalf>::bits, KernelOf<Path, ScalarKind::kBFloat16>::bits,
     KernelOf<Path, ScalarKind::kFloat>::bits, KernelOf<Path, ScalarKind::kDouble>::bits}};

}  // namespace ddpscope::values
