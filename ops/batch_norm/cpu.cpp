#include "ops/batch_norm/cpu.h"

#include <algorithm>

#include "ops/batch_norm/cpu/processor.h"
#include "ops/parallel.h"

namespace ddpscope::batch_norm {
namespace {
using SumRun = void (*)(const SumOperands&, const ChannelRun&);
using SumBand = void (*)(const SumOperands&, const Band&);
using MapStretch = void (*)(const MapOperands&, const Stretch&);
using MapBand = void (*)(const MapOperands&, const Band&);

std::int64_t parts_of(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

/// Rows in blocks of kBandRows, channels in bands: tile `index` of so many.
struct RowTiles {
  explicit RowTiles(const NormShape& shape)
      : rows(shape.values()), channels(shape.channels), bands(parts_of(channels, kBandChannels)) {}
  std::int64_t count() const { return bands * parts_of(rows, kBandRows); }
  std::int64_t first_channel(std::int64_t index) const { return index % bands * kBandChannels; }
  Band tile(std::int64_t index) const {
    const std::int64_t row = index / bands * kBandRows;
    const std::int64_t channel = first_channel(index);
    return {.channel = channel,
            .offset = row * channels + channel,
            .stride = channels,
            .rows = std::min(kBandRows, rows - row),
            .channels = std::min(kBandChannels, channels - channel)};
  }
  std::int64_t rows, channels, bands;
};

SumOperands from_channel(SumOperands operands, std::int64_t channel) {
  if (operands.mean != nullptr) operands.mean += channel;
  return operands;
}

/// Two numbers per channel of each part; part k holds `counts[k]` values of every channel.
struct Partials {
  Partials(const NormShape& shape, std::int64_t part)
      : channels(shape.channels), counts(parts_of(shape.values(), part), part) {
    if (!counts.empty()) counts.back() = shape.values() - part * (parts() - 1);
    first.resize(counts.size() * channels);
    second.resize(first.size());
  }
  std::int64_t parts() const { return static_cast<std::int64_t>(counts.size()); }
  std::int64_t channels;
  std::vector<std::int64_t> counts;
  std::vector<double> first, second;
};

Partials sum_planes(SumRun sum, const NormShape& shape, const SumOperands& operands) {
  Partials partials(shape, kRunValues);
  const std::int64_t parts = partials.parts();
  const auto sum_some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t channel = i / parts;
      const std::int64_t part = i % parts;
      SumOperands of_run = from_channel(operands, channel);
      of_run.first = &partials.first[part * shape.channels + channel];
      of_run.second = &partials.second[part * shape.channels + channel];
      sum(of_run, {.offset = channel * shape.plane,
                   .plane = shape.plane,
                   .stride = shape.channels * shape.plane,
                   .begin = part * kRunValues,
                   .end = std::min((part + 1) * kRunValues, shape.values())});
    }
  };
  ops::for_ranges(parts * shape.channels, shape.elements(), sum_some);
  return partials;
}

Partials sum_rows(SumBand sum, const NormShape& shape, const SumOperands& operands) {
  Partials partials(shape, kBandRows);
  const RowTiles tiles(shape);
  ops::for_ranges(tiles.count(), shape.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i / tiles.bands * shape.channels + tiles.first_channel(i);
      SumOperands of_band = from_channel(operands, tiles.first_channel(i));
      of_band.first = &partials.first[at];
      of_band.second = &partials.second[at];
      sum(of_band, tiles.tile(i));
    }
  });
  return partials;
}

void map_planes(MapStretch map, const NormShape& shape, const MapOperands& operands) {
  const std::int64_t values = shape.elements();
  const std::int64_t tiles = parts_of(values, kRunValues);
  ops::for_ranges(tiles, values, [&](std::int64_t begin, std::int64_t end) {
    ops::from_the_end(begin, end, [&](std::int64_t i) {
      map(operands, {.plane = shape.plane,
                     .channels = shape.channels,
                     .begin = i * kRunValues,
                     .end = std::min((i + 1) * kRunValues, values)});
    });
  });
}

void map_rows(MapBand map, const NormShape& shape, const MapOperands& operands) {
  const RowTiles tiles(shape);
  ops::for_ranges(tiles.count(), shape.elements(), [&](std::int64_t begin, std::int64_t end) {
    ops::from_the_end(begin, end, [&](std::int64_t i) { map(operands, tiles.tile(i)); });
  });
}

struct MapKernels {
  MapStretch of_planes;
  MapBand of_rows;
};

/// The terms as `Number`, in rows. What the mean is off by as one goes into the shift: a mean alone
/// is off by 6e-8 of itself in float, much where it is large.
template <class Number>
void map_as(const MapKernels& kernels, const NormShape& shape, MapOperands operands,
            const ChannelTerms& terms) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const double* const by_mean = terms.slope == nullptr ? terms.scale : terms.slope;
  std::vector<Number> numbers(4 * channels);
  Number* const mean = numbers.data();
  Number* const scale = mean + channels;
  Number* const shift = scale + channels;
  Number* const slope = shift + channels;
  for (std::size_t c = 0; c < channels; ++c) {
    mean[c] = static_cast<Number>(terms.mean[c]);
    scale[c] = static_cast<Number>(terms.scale[c]);
    const double rest = terms.mean[c] - static_cast<double>(mean[c]);
    const double moved = rest == 0 ? 0 : rest * by_mean[c];  // by_mean may be infinite
    shift[c] = static_cast<Number>(terms.shift[c] - moved);
    slope[c] = static_cast<Number>(by_mean[c]);
  }
  operands.mean = mean;
  operands.scale = scale;
  operands.shift = shift;
  operands.slope = slope;
  shape.layout == Layout::kPlanes ? map_planes(kernels.of_planes, shape, operands)
                                  : map_rows(kernels.of_rows, shape, operands);
}

void map(const MapKernels& kernels, const NormShape& shape, const MapOperands& operands,
         const ChannelTerms& terms) {
  const auto as_computed = shape.kind == ScalarKind::kDouble ? map_as<double> : map_as<float>;
  as_computed(kernels, shape, operands, terms);
}

}  // namespace

ChannelPair measure(const NormShape& shape, const void* x) {
  const Kernels& kernels = kernels_of(shape.kind);
  const Partials partials = shape.layout == Layout::kPlanes
                                ? sum_planes(kernels.measure_run, shape, {.x = x})
                                : sum_rows(kernels.measure_band, shape, {.x = x});
  ChannelPair merged = {std::vector<double>(shape.channels), std::vector<double>(shape.channels)};
  double count = 0;
  for (std::int64_t part = 0; part < partials.parts(); ++part) {
    const auto added = static_cast<double>(partials.counts[part]);
    const double weight = added / (count + added);
    const double* const means = &partials.first[part * shape.channels];
    const double* const m2s = &partials.second[part * shape.channels];
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      const double shift = means[c] - merged.first[c];
      merged.first[c] += shift * weight;
      merged.second[c] += m2s[c] + shift * shift * (count * weight);
    }
    count += added;
  }
  return merged;
}

ChannelPair reduce(const NormShape& shape, const void* x, const void* dy, const double* mean) {
  const SumOperands operands = {.x = x, .dy = dy, .mean = mean};
  const Kernels& kernels = kernels_of(shape.kind);
  const Partials partials = shape.layout == Layout::kPlanes
                                ? sum_planes(kernels.reduce_run, shape, operands)
                                : sum_rows(kernels.reduce_band, shape, operands);
  ChannelPair sums = {std::vector<double>(shape.channels), std::vector<double>(shape.channels)};
  for (std::int64_t part = 0; part < partials.parts(); ++part) {
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      sums.first[c] += partials.first[part * shape.channels + c];
      sums.second[c] += partials.second[part * shape.channels + c];
    }
  }
  return sums;
}

void normalize(const NormShape& shape, const void* x, const ChannelTerms& terms, void* y) {
  const Kernels& kernels = kernels_of(shape.kind);
  map({kernels.normalize_stretch, kernels.normalize_band}, shape, {.x = x, .out = y}, terms);
}

void grad_input(const NormShape& shape, const void* x, const void* dy, const ChannelTerms& terms,
                void* dx) {
  const Kernels& kernels = kernels_of(shape.kind);
  map({kernels.grad_input_stretch, kernels.grad_input_band}, shape, {.x = x, .dy = dy, .out = dx},
      terms);
}

}  // namespace ddpscope::batch_norm
