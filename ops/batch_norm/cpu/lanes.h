#pragma once

#include <cstdint>

// Sixteen numbers in as many vectors of `Bytes` as they need. Every function is a member of a
// template over the width of a file's processor, so that no two files share one.
namespace ddpscope::batch_norm {

inline constexpr int kLanes = 16;

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

template <class Number, int Bytes>
struct Lanes {
  typedef Number Vector __attribute__((vector_size(Bytes)));  // NOLINT: `using` cannot carry it
  typedef Number Anywhere                                     // NOLINT
      __attribute__((vector_size(Bytes), aligned(alignof(Number)), may_alias));
  static constexpr int kParts = kLanes * static_cast<int>(sizeof(Number)) / Bytes;
  static constexpr int kPerPart = Bytes / static_cast<int>(sizeof(Number));

  Vector part[kParts];

  static Lanes load(const Number* from) {
    Lanes lanes;
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) {
      lanes.part[i] = *reinterpret_cast<const Anywhere*>(from + i * kPerPart);
    }
    return lanes;
  }
  void store(Number* to) const {
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) *reinterpret_cast<Anywhere*>(to + i * kPerPart) = part[i];
  }
  static Lanes all(Number value) {
    Lanes lanes;
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) lanes.part[i] = value - Vector{};
    return lanes;
  }
  friend Lanes operator+(const Lanes& a, const Lanes& b) {
    Lanes sum;
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) sum.part[i] = a.part[i] + b.part[i];
    return sum;
  }
  friend Lanes operator-(const Lanes& a, const Lanes& b) {
    Lanes difference;
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) difference.part[i] = a.part[i] - b.part[i];
    return difference;
  }
  friend Lanes operator*(const Lanes& a, const Lanes& b) {
    Lanes product;
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) product.part[i] = a.part[i] * b.part[i];
    return product;
  }
};

/// The channels of a band in vectors of sixteen. The last one overlaps the one before: the same
/// bits once more, and no shorter vector. Only a band of fewer than sixteen has one.
template <class Processor>
struct BandVectors {
  std::int64_t channels;
  int count() const { return static_cast<int>((channels + kLanes - 1) / kLanes); }
  bool is_short() const { return channels < kLanes; }
  std::int64_t width() const { return is_short() ? channels : kLanes; }
  /// Where vector `index` begins.
  std::int64_t channel(int index) const {
    const std::int64_t last = is_short() ? 0 : channels - kLanes;
    return index * kLanes < last ? index * kLanes : last;
  }
};

template <class Value>
struct Arithmetic {
  using Number = float;
};
template <>
struct Arithmetic<double> {
  using Number = double;
};

/// How a type lies in memory: `Processor` widens and narrows the half types.
template <class Processor, class Value>
struct Memory {
  using Number = typename Arithmetic<Value>::Number;
  using Vector = Lanes<Number, Processor::kBytes>;

  static Vector load(const Value* from) {
    if constexpr (sizeof(Value) == sizeof(Number)) {
      return Vector::load(from);
    } else {
      Vector lanes;
      Processor::widen(from, lanes);
      return lanes;
    }
  }
  static void store(const Vector& lanes, Value* to) {
    if constexpr (sizeof(Value) == sizeof(Number)) {
      lanes.store(to);
    } else {
      Processor::narrow(lanes, to);
    }
  }
  /// Thirty-two values in an order of their own, which `store_pair` undoes.
  struct Pair {
    Vector first, second;
  };
  static Pair load_pair(const Value* from) {
    if constexpr (requires(Pair & pair) { Processor::widen(from, pair.first, pair.second); }) {
      Pair pair;
      Processor::widen(from, pair.first, pair.second);
      return pair;
    } else {
      return {load(from), load(from + kLanes)};
    }
  }
  static void store_pair(const Pair& pair, Value* to) {
    if constexpr (requires { Processor::narrow(pair.first, pair.second, to); }) {
      Processor::narrow(pair.first, pair.second, to);
    } else {
      store(pair.first, to);
      store(pair.second, to + kLanes);
    }
  }
  /// Up to sixteen values, then zeros.
  static Vector load_some(const Value* from, std::int64_t count) {
    Value values[kLanes] = {};
    copy(from, values, count);
    return load(values);
  }
  static void store_some(const Vector& lanes, Value* to, std::int64_t count) {
    Value values[kLanes];
    store(lanes, values);
    copy(values, to, count);
  }
  /// In pieces of a fixed size, of which the last may overlap the one before: a call of memcpy
  /// takes longer than most of these copies.
  static void copy(const Value* from, Value* to, std::int64_t count) {
    if (count >= kLanes) {
      for (std::int64_t i = 0; i < count - kLanes; i += kLanes) move<kLanes>(from + i, to + i);
      return move<kLanes>(from + count - kLanes, to + count - kLanes);
    }
    if (count >= 8) return move_ends<8>(from, to, count);
    if (count >= 4) return move_ends<4>(from, to, count);
    if (count >= 2) return move_ends<2>(from, to, count);
    if (count == 1) *to = *from;
  }
  static double number(const Value* from) {
    Number numbers[kLanes];
    load_some(from, 1).store(numbers);
    return numbers[0];
  }
  template <int Count>
  static void move(const Value* from, Value* to) {
    __builtin_memcpy(to, from, Count * sizeof(Value));
  }
  /// Of `Count` to twice as many.
  template <int Count>
  static void move_ends(const Value* from, Value* to, std::int64_t count) {
    move<Count>(from, to);
    move<Count>(from + count - Count, to + count - Count);
  }
  /// Numbers of up to sixteen channels, then zeros; one number for all lanes where `count` is 0.
  static Vector terms(const void* numbers, std::int64_t channel, std::int64_t count) {
    const Number* const from = static_cast<const Number*>(numbers) + channel;
    if (count == 0) return Vector::all(*from);
    if (count == kLanes) return Vector::load(from);
    return spread(count, [from](std::int64_t i) { return from[i]; });
  }
  template <class Of>
  static Vector spread(std::int64_t count, Of number) {
    if (count == 0) return Vector::all(static_cast<Number>(number(0)));
    Number numbers[kLanes] = {};
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = static_cast<Number>(number(i));
    return Vector::load(numbers);
  }
};

/// A mean in two numbers: one alone is off by 6e-8 of itself in float, much where it is large.
template <class Processor, class Value>
struct Center {
  using In = Memory<Processor, Value>;
  using Vector = typename In::Vector;
  Vector high, low;

  static Center of(const double* mean, std::int64_t count) {
    const auto whole = [mean](std::int64_t i) { return mean[i]; };
    const auto rest = [mean](std::int64_t i) {
      return mean[i] - static_cast<double>(static_cast<typename In::Number>(mean[i]));
    };
    return {In::spread(count, whole), In::spread(count, rest)};
  }
  Vector taken_from(const Vector& x) const { return (x - high) - low; }
};

}  // namespace ddpscope::batch_norm
