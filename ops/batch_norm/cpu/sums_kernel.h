#pragma once

#include "ops/batch_norm/cpu/kernels.h"
#include "ops/batch_norm/cpu/lanes.h"
#include "ops/batch_norm/cpu/moment_sums.h"

namespace ddpscope::batch_norm {

/// The sums over one channel, or over a band of channels, that the two directions need.
template <class Processor, class Value>
struct SumKernels {
  using In = Memory<Processor, Value>;
  using Number = typename In::Number;
  using Vector = typename In::Vector;
  using LaneSums = MomentSums<Processor, Value, kLanes>;
  using BandSums = MomentSums<Processor, Value, static_cast<int>(kBandChannels)>;

  /// Asks for planes some time before they are read: those of a channel lie too far apart for the
  /// processor to guess where the next one is.
  struct Fetch {
    const Value* x;
    std::int64_t ahead;  ///< elements
    std::int64_t last;   ///< position of the last plane

    static Fetch of(const Value* x, const ChannelRun& run) {
      return {x, 12 * run.stride, run.offset + (run.end - 1) / run.plane * run.stride};
    }
    void before(std::int64_t at) const {
      constexpr std::int64_t kLine = 64 / sizeof(Value);
      if (at + ahead > last) return;
      __builtin_prefetch(x + at + ahead);
      __builtin_prefetch(x + at + ahead + kLine);
    }
  };

  /// Calls `piece(position, values)` for each part of the run that lies within one plane.
  template <class Piece>
  static void for_pieces(const ChannelRun& run, Piece piece) {
    std::int64_t in_plane = run.begin % run.plane;
    std::int64_t plane = run.offset + run.begin / run.plane * run.stride;
    for (std::int64_t left = run.end - run.begin; left > 0; plane += run.stride, in_plane = 0) {
      const std::int64_t rest = run.plane - in_plane;
      const std::int64_t values = rest < left ? rest : left;
      piece(plane + in_plane, values);
      left -= values;
    }
  }

  /// `rows` rows of the lanes that follow one another. Not inlined: the loop is unrolled, and takes
  /// a third longer where its numbers share registers with others.
  template <int Fixed = 0>
  [[gnu::noinline]] static void add_rows(LaneSums& sums, const Value* from, int rows) {
    sums.template add<Fixed>(
        0, [from](int i) { return from + i * kLanes; }, rows);
    sums.end_block(rows);
  }
  static void add_blocks(LaneSums& sums, const Value* from, std::int64_t values) {
    for (std::int64_t at = 0; at < values; at += kBlock) {
      add_rows<kBlockRows>(sums, from + at, kBlockRows);
    }
  }

  // What a plane has beyond whole blocks is put together with that of others, many at a time. Every
  // block but the last is full, wherever planes end.
  static void measure_run(const SumOperands& operands, const ChannelRun& run) {
    constexpr std::int64_t kMost = 16 * kBlock;
    const auto* const x = static_cast<const Value*>(operands.x);
    const Fetch fetch = Fetch::of(x, run);
    LaneSums sums;
    Value stage[kMost + kBlock];
    std::int64_t staged = 0;
    for_pieces(run, [&](std::int64_t at, std::int64_t values) {
      fetch.before(at);
      const std::int64_t whole = values / kBlock * kBlock;
      add_blocks(sums, x + at, whole);
      In::copy(x + at + whole, stage + staged, values - whole);
      staged += values - whole;
      if (staged < kMost) return;
      add_blocks(sums, stage, kMost);
      staged -= kMost;
      In::copy(stage + kMost, stage, staged);
    });
    const std::int64_t whole = staged / kBlock * kBlock;
    add_blocks(sums, stage, whole);
    finish(sums, stage + whole, static_cast<int>(staged - whole), operands);
  }

  static void finish(LaneSums& sums, const Value* stage, int staged, const SumOperands& operands) {
    const int rows = staged / kLanes;
    if (rows > 0) add_rows(sums, stage, rows);
    sums.fold();
    double mean = 0, m2 = 0, count = 0;
    if (sums.rows() > 0) {  // the lanes have as many values each
      for (int i = 0; i < kLanes; ++i) mean += sums.mean[i];
      mean /= kLanes;
      for (int i = 0; i < kLanes; ++i) {
        const double shift = sums.mean[i] - mean;
        m2 += sums.m2[i] + shift * shift * sums.rows();
      }
      count = sums.rows() * kLanes;
    }
    for (int i = rows * kLanes; i < staged; ++i) {
      const double shift = In::number(stage + i) - mean;
      mean += shift / (count + 1);
      m2 += shift * shift * (count / (count + 1));
      ++count;
    }
    *operands.first = mean;
    *operands.second = m2;
  }

  /// Where the channels of a vector lie for `rows` rows: in the tensor, or those of a short band
  /// copied to `stage` between zeros.
  struct Rows {
    const Value* at;
    std::int64_t stride;
  };
  static Rows find_rows(const Value* from, const Band& band, int index, int rows, Value* stage) {
    const BandVectors<Processor> vectors = {band.channels};
    if (!vectors.is_short()) return {from + vectors.channel(index), band.stride};
    for (int i = 0; i < rows * kLanes; ++i) stage[i] = Value{};
    for (int i = 0; i < rows; ++i) {
      In::copy(from + i * band.stride, stage + i * kLanes, band.channels);
    }
    return {stage, kLanes};
  }

  /// From sums by vector to sums by channel.
  static void write_channels(const double* sums, const Band& band, double* to) {
    const BandVectors<Processor> vectors = {band.channels};
    for (int index = 0; index < vectors.count(); ++index) {
      for (std::int64_t i = 0; i < vectors.width(); ++i) {
        to[vectors.channel(index) + i] = sums[index * kLanes + i];
      }
    }
  }

  /// Asks for a vector of the next block: the processor expects neighbours, not strides.
  static void fetch_rows(const Value* next, const Band& band, int index) {
    const Value* const from = next + BandVectors<Processor>{band.channels}.channel(index);
    for (int i = 0; i < kBlockRows; ++i) __builtin_prefetch(from + i * band.stride);
  }

  static void measure_band(const SumOperands& operands, const Band& band) {
    const auto* const x = static_cast<const Value*>(operands.x) + band.offset;
    const BandVectors<Processor> vectors = {band.channels};
    BandSums sums(vectors.count() * kLanes);
    Value stage[kBlock];
    for (std::int64_t row = 0; row < band.rows; row += kBlockRows) {
      const Value* const from = x + row * band.stride;
      const bool is_full = band.rows - row >= kBlockRows;
      const bool has_next = band.rows - row >= 2 * kBlockRows;
      const int rows = is_full ? kBlockRows : static_cast<int>(band.rows - row);
      for (int index = 0; index < vectors.count(); ++index) {
        const Rows found = find_rows(from, band, index, rows, stage);
        const auto row_at = [found](int i) { return found.at + i * found.stride; };
        if (has_next) fetch_rows(from + kBlockRows * band.stride, band, index);
        if (is_full) {
          sums.template add<kBlockRows>(index * kLanes, row_at, rows);
        } else {
          sums.add(index * kLanes, row_at, rows);
        }
      }
      sums.end_block(rows);
    }
    sums.fold();
    write_channels(sums.mean, band, operands.first);
    write_channels(sums.m2, band, operands.second);
  }

  /// Sums of dy and of dy * (x - mean): of a short run in `Number`, then in double.
  struct GradientSums {
    Vector first = Vector::all(0), second = Vector::all(0);

    void add(const Vector& dy, const Vector& difference) {
      first = first + dy;
      second = second + dy * difference;
    }
    void fold(double* first_sums, double* second_sums) {
      Number numbers[2][kLanes];
      first.store(numbers[0]);
      second.store(numbers[1]);
      for (int i = 0; i < kLanes; ++i) {
        first_sums[i] += static_cast<double>(numbers[0][i]);
        second_sums[i] += static_cast<double>(numbers[1][i]);
      }
      first = second = Vector::all(0);
    }
  };

  static void reduce_run(const SumOperands& operands, const ChannelRun& run) {
    const auto* const x = static_cast<const Value*>(operands.x);
    const auto* const dy = static_cast<const Value*>(operands.dy);
    const auto center = Center<Processor, Value>::of(operands.mean, 0);
    double first[kLanes] = {}, second[kLanes] = {};
    GradientSums sums;
    std::int64_t held = 0;
    for_pieces(run, [&](std::int64_t at, std::int64_t values) {
      const std::int64_t end = at + values;
      while (end - at >= kLanes) {
        const std::int64_t fits = (end - at) / kLanes;
        const std::int64_t rows = fits < kRunRows - held ? fits : kRunRows - held;
        for (std::int64_t i = 0; i < rows; ++i, at += kLanes) {
          sums.add(In::load(dy + at), center.taken_from(In::load(x + at)));
        }
        held += rows;
        if (held == kRunRows) sums.fold(first, second), held = 0;
      }
      if (at == end) return;
      sums.add(In::load_some(dy + at, end - at),
               center.taken_from(In::load_some(x + at, end - at)));
      if (++held == kRunRows) sums.fold(first, second), held = 0;
    });
    sums.fold(first, second);
    *operands.first = *operands.second = 0;
    for (int i = 0; i < kLanes; ++i) {
      *operands.first += first[i];
      *operands.second += second[i];
    }
  }

  /// The sums of a band: GradientSums for each of its vectors.
  struct BandGradientSums {
    GradientSums run[kBandChannels / kLanes];
    double first[kBandChannels] = {}, second[kBandChannels] = {};
    void fold(int vectors) {
      for (int i = 0; i < vectors; ++i) run[i].fold(first + i * kLanes, second + i * kLanes);
    }
  };

  static void reduce_band(const SumOperands& operands, const Band& band) {
    constexpr std::int64_t kRows = 4;  // at once: few enough to be fetched ahead
    const auto* const x = static_cast<const Value*>(operands.x) + band.offset;
    const auto* const dy = static_cast<const Value*>(operands.dy) + band.offset;
    const BandVectors<Processor> vectors = {band.channels};
    Center<Processor, Value> centers[kBandChannels / kLanes];
    for (int index = 0; index < vectors.count(); ++index) {
      centers[index] =
          Center<Processor, Value>::of(operands.mean + vectors.channel(index), vectors.width());
    }
    BandGradientSums sums;
    Value stage[2][kRows * kLanes];
    for (std::int64_t row = 0; row < band.rows; row += kRows) {
      const std::int64_t at = row * band.stride;
      const std::int64_t left = band.rows - row;
      const int rows = static_cast<int>(left < kRows ? left : kRows);
      for (int index = 0; index < vectors.count(); ++index) {
        const Rows x_rows = find_rows(x + at, band, index, rows, stage[0]);
        const Rows dy_rows = find_rows(dy + at, band, index, rows, stage[1]);
        GradientSums of_vector = sums.run[index];
        for (int i = 0; i < rows; ++i) {
          of_vector.add(In::load(dy_rows.at + i * dy_rows.stride),
                        centers[index].taken_from(In::load(x_rows.at + i * x_rows.stride)));
        }
        sums.run[index] = of_vector;
      }
      if ((row + kRows) % kRunRows == 0) sums.fold(vectors.count());
    }
    sums.fold(vectors.count());
    write_channels(sums.first, band, operands.first);
    write_channels(sums.second, band, operands.second);
  }
};

}  // namespace ddpscope::batch_norm
