#pragma once

#include "ops/batch_norm/cpu/kernels.h"
#include "ops/batch_norm/cpu/lanes.h"

namespace ddpscope::batch_norm {

/// What is done to each value: `of` reads the terms of some channels, the call operator applies
/// them to sixteen values.
template <class Processor, class Value>
struct Normalize {
  static constexpr bool kReadsGradient = false;
  using In = Memory<Processor, Value>;
  using Vector = typename In::Vector;
  Vector mean, scale, shift;

  static Normalize of(const MapOperands& operands, std::int64_t channel, std::int64_t count) {
    return {In::terms(operands.mean, channel, count), In::terms(operands.scale, channel, count),
            In::terms(operands.shift, channel, count)};
  }
  Vector operator()(const Vector& x, const Vector&) const { return (x - mean) * scale + shift; }
};

template <class Processor, class Value>
struct GradInput {
  static constexpr bool kReadsGradient = true;
  using In = Memory<Processor, Value>;
  using Vector = typename In::Vector;
  Vector mean, scale, shift, slope;

  static GradInput of(const MapOperands& operands, std::int64_t channel, std::int64_t count) {
    return {In::terms(operands.mean, channel, count), In::terms(operands.scale, channel, count),
            In::terms(operands.shift, channel, count), In::terms(operands.slope, channel, count)};
  }
  Vector operator()(const Vector& x, const Vector& dy) const {
    return ((dy - shift) - (x - mean) * slope) * scale;
  }
};

template <class Processor, class Value, template <class, class> class Operation>
struct MapKernel {
  using In = Memory<Processor, Value>;
  using Vector = typename In::Vector;
  using Map = Operation<Processor, Value>;

  struct Arrays {
    const Value* x;
    const Value* dy;
    Value* out;
  };
  static Arrays arrays_at(const MapOperands& operands, std::int64_t offset) {
    const auto* const dy = static_cast<const Value*>(operands.dy);
    return {static_cast<const Value*>(operands.x) + offset,
            Map::kReadsGradient ? dy + offset : nullptr,
            static_cast<Value*>(operands.out) + offset};
  }

  static void map(const Map& operation, const Arrays& arrays, std::int64_t at) {
    const Vector x = In::load(arrays.x + at);
    if constexpr (Map::kReadsGradient) {
      In::store(operation(x, In::load(arrays.dy + at)), arrays.out + at);
    } else {
      In::store(operation(x, x), arrays.out + at);
    }
  }
  /// Of one channel: both vectors together.
  static void map_pair(const Map& operation, const Arrays& arrays, std::int64_t at) {
    auto x = In::load_pair(arrays.x + at);
    if constexpr (Map::kReadsGradient) {
      const auto dy = In::load_pair(arrays.dy + at);
      In::store_pair({operation(x.first, dy.first), operation(x.second, dy.second)},
                     arrays.out + at);
    } else {
      In::store_pair({operation(x.first, x.first), operation(x.second, x.second)}, arrays.out + at);
    }
  }
  static void map_some(const Map& operation, const Arrays& arrays, std::int64_t at,
                       std::int64_t count) {
    const Vector x = In::load_some(arrays.x + at, count);
    if constexpr (Map::kReadsGradient) {
      In::store_some(operation(x, In::load_some(arrays.dy + at, count)), arrays.out + at, count);
    } else {
      In::store_some(operation(x, x), arrays.out + at, count);
    }
  }

  // The last values once more with those before them: the same bits, and no shorter vector.
  static void map_plane(const Map& operation, const Arrays& arrays, std::int64_t begin,
                        std::int64_t end) {
    constexpr std::int64_t kPair = 2 * kLanes;
    std::int64_t at = begin;
    for (; end - at >= kPair; at += kPair) map_pair(operation, arrays, at);
    if (at == end) return;
    if (end - begin >= kPair) return map_pair(operation, arrays, end - kPair);
    if (end - begin < kLanes) return map_some(operation, arrays, at, end - at);
    map(operation, arrays, at);
    if (end - at > kLanes) map(operation, arrays, end - kLanes);
  }

  static void map_stretch(const MapOperands& operands, const Stretch& stretch) {
    const Arrays arrays = arrays_at(operands, 0);
    const std::int64_t first_plane = stretch.begin / stretch.plane;
    std::int64_t channel = first_plane % stretch.channels;
    std::int64_t plane_end = first_plane * stretch.plane;
    for (std::int64_t at = stretch.begin; at < stretch.end;) {
      plane_end += stretch.plane;
      const std::int64_t end = plane_end < stretch.end ? plane_end : stretch.end;
      const Map operation = Map::of(operands, channel, 0);
      map_plane(operation, arrays, at, end);
      at = end;
      if (++channel == stretch.channels) channel = 0;
    }
  }

  static void map_band(const MapOperands& operands, const Band& band) {
    const Arrays arrays = arrays_at(operands, band.offset);
    const BandVectors<Processor> vectors = {band.channels};
    Map operations[kBandChannels / kLanes];
    for (int index = 0; index < vectors.count(); ++index) {
      operations[index] = Map::of(operands, band.channel + vectors.channel(index), vectors.width());
    }
    for (std::int64_t row = 0; row < band.rows; ++row) {
      const std::int64_t at = row * band.stride;
      if (vectors.is_short()) {
        map_some(operations[0], arrays, at, band.channels);
        continue;
      }
      for (int index = 0; index < vectors.count(); ++index) {
        map(operations[index], arrays, at + vectors.channel(index));
      }
    }
  }
};

}  // namespace ddpscope::batch_norm
