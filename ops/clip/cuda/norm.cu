#include "ops/clip/cuda/finish.cuh"
#include "ops/clip/cuda/rows.cuh"

namespace ddpscope::cuda {
namespace {

template <class Table>
struct NormArguments {
  Table table;
  ClipRule rule;
  ClipLayout layout;
  ClipBuffers buffers;
  std::int64_t first_row;  // of the list
  bool is_last;            // no rows come after these
};
static_assert(sizeof(NormArguments<RowTable>) <= kArgumentBytes);

// As a call: inlined at every element it would be most of the kernel, and minutes of compiling.
__device__ __attribute__((noinline)) double power_of(double magnitude, double p) {
  return pow(magnitude, p);
}

__device__ inline void add_power(PowerKind power, double magnitude, double p, double& sum) {
  switch (power) {
    case PowerKind::kNone:
      return;
    case PowerKind::kMagnitudes:
      sum += magnitude;
      return;
    case PowerKind::kSquares:
      sum += magnitude * magnitude;
      return;
    case PowerKind::kSmallest:
      sum = magnitude < sum ? magnitude : sum;
      return;
    case PowerKind::kPowers:
      sum += power_of(magnitude, p);
  }
}

template <class Wide>
struct Lane {
  PowerKind power;
  double p;
  double power_sum = power == PowerKind::kSmallest ? kInfinite : 0;
  Wide max_abs = 0;
  int nan_count = 0, inf_count = 0;

  __device__ void count(Wide magnitude) {
    if (magnitude < static_cast<Wide>(kInfinite)) return;
    if (magnitude == magnitude) {
      ++inf_count;
    } else {
      ++nan_count;
    }
  }
  /// One look at all of them tells whether any is to be counted.
  template <int N>
  __device__ void add(const Wide (&magnitudes)[N]) {
    bool are_finite = true;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      are_finite &= magnitudes[i] < static_cast<Wide>(kInfinite);
      max_abs = fmax(max_abs, magnitudes[i]);  // of a NaN and a number, the number
      add_power(power, static_cast<double>(magnitudes[i]), p, power_sum);
    }
    if (are_finite) return;
#pragma unroll
    for (int i = 0; i < N; ++i) count(magnitudes[i]);
  }
  __device__ Found found() const {
    return {power_sum, static_cast<double>(max_abs), nan_count, inf_count};
  }
};

template <ScalarKind K, int V, class Lane>
__device__ void add_elements(const Elements<K, V>& elements, Lane& lane) {
  typename Scalar<K>::Wide magnitudes[V];
#pragma unroll
  for (int j = 0; j < V; ++j) {
    magnitudes[j] = fabs(widen<K>(elements, j));
  }
  lane.add(magnitudes);
}

template <ScalarKind K, int kInFlight, class Lane>
__device__ void add_share(const void* data, const Share& share, const Piece& piece, Lane& lane) {
  constexpr int V = kVector<K>;
  for (int i = piece.lane; i < share.head; i += piece.lanes) {
    add_elements(load_elements<K, 1>(data, i), lane);
  }
  const auto at = [&](int vector) { return load_elements<K, V>(data, share.head + vector * V); };
  int i = piece.lane;
  for (; i + (kInFlight - 1) * piece.lanes < share.vectors; i += kInFlight * piece.lanes) {
    Elements<K, V> vectors[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) vectors[k] = at(i + k * piece.lanes);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) add_elements(vectors[k], lane);
  }
  for (; i < share.vectors; i += piece.lanes) add_elements(at(i), lane);
  for (i = share.tail + piece.lane; i < share.count; i += piece.lanes) {
    add_elements(load_elements<K, 1>(data, i), lane);
  }
}

/// A complex number that holds a NaN is one NaN, and one Inf where it holds that, too.
template <ScalarKind K>
__device__ Found add_complex(const void* data, const Piece& piece, PowerKind power, double p) {
  Lane<double> lane = {power, p};
  for (int i = piece.lane; i < piece.elements; i += piece.lanes) {
    const double real = Scalar<K>::widen(load_elements<K, 1>(data, 2 * i).bits[0]);
    const double imaginary = Scalar<K>::widen(load_elements<K, 1>(data, 2 * i + 1).bits[0]);
    const bool has_nan = real != real || imaginary != imaginary;
    const bool has_inf = fabs(real) == kInfinite || fabs(imaginary) == kInfinite;
    lane.inf_count += has_nan && has_inf;
    const double magnitudes[] = {has_nan ? NAN : hypot(real, imaginary)};
    lane.add(magnitudes);
  }
  return lane.found();
}

template <PowerKind P>
__device__ Found measure(const ClipRow& row, const Piece& piece, double p) {
  return with_kind(row.kind, [&](auto kind) -> Found {
    constexpr ScalarKind K = decltype(kind)::value;
    const auto* const data =
        static_cast<const char*>(row.data) +
        piece.begin * (row.is_complex ? 2 : 1) * static_cast<int>(sizeof(Elements<K, 1>));
    if (row.is_complex) return add_complex<K>(data, piece, P, p);
    using Wide = typename Scalar<K>::Wide;
    Lane<Wide> lane = {P, p};
    constexpr int kInFlight = P == PowerKind::kPowers ? 1 : 8;  // powers take longer than memory
    add_share<K, kInFlight>(data, Share(kind, data, piece.elements), piece, lane);
    return lane.found();
  });
}

template <PowerKind P, class Table>
__global__ void __launch_bounds__(kThreads)
    norm_kernel(const __grid_constant__ NormArguments<Table> arguments) {
  const Table& table = arguments.table;
  const ClipBuffers& buffers = arguments.buffers;
  const Piece piece = piece_of(table, static_cast<int>(blockIdx.x), /*at_lines=*/false);
  const std::int64_t row = arguments.first_row + piece.row;
  Found found = neutral<P, Found>();
  if (piece.row >= 0) found = measure<P>(table.rows[piece.row], piece, arguments.rule.p);
  found = merge_warp<P>(found);
  if (!piece.is_small) found = merge_warps<P>(found);
  ClipSums sums = sums_of(found);
  if (piece.blocks > 1) {
    const ClipSums* const parts = buffers.parts + table.rows[piece.row].first_block;
    if (threadIdx.x == 0) buffers.parts[blockIdx.x] = sums;
    if (!is_last_block(buffers.tickets + 1 + row, piece.blocks)) return;
    sums = merge_parts<P>(parts, piece.blocks);
  }
  const bool tells = piece.row >= 0 && piece.lane == 0;
  if (tells) {
    sums = as_row(sums, table.rows[piece.row]);
    tell_row<P>(sums, row, arguments.rule, arguments.layout, buffers);
  }
  ClipSums* ends = nullptr;
  if constexpr (Table::kKeepsEnds) {
    ends = buffers.parts + table.blocks.all;
    const ClipSums end = end_of<P>(sums, row, tells, arguments.rule);
    if (threadIdx.x == 0) ends[table.end_of_block[blockIdx.x]] = end;
  }
  if (!is_last_block(buffers.tickets, table.blocks.last)) return;
  if (arguments.is_last && buffers.result != nullptr) {
    finish<P>(arguments.rule, arguments.layout, buffers, ends, table.blocks.last);
  }
}

template <PowerKind P, class Table>
int launch_table(NormArguments<Table>& arguments, const ClipNormCall& call, CUstream_st* stream) {
  arguments.rule = call.rule;
  arguments.layout = call.layout;
  arguments.buffers = call.buffers;
  Blocks& blocks = arguments.table.blocks;
  if (blocks.all == 0) blocks = {1, 1};  // a list without rows has a result, too
  return launch(norm_kernel<P, Table>, {blocks.all, stream}, arguments);
}

template <PowerKind P>
int launch_norm(const ClipNormCall& call, CUstream_st* stream) noexcept {
  if (call.listing.rows != nullptr) {
    NormArguments<ListedRows> arguments = {
        .table = {call.listing}, .first_row = 0, .is_last = true};
    return launch_table<P>(arguments, call, stream);
  }
  const int chunk_bits = chunk_bits_of(elements_of(call.rows));
  NormArguments<RowTable> arguments;
  for (std::size_t first = 0; first == 0 || first < call.rows.size(); first += kRows) {
    fill_table(call.rows, first, chunk_bits, arguments.table);
    arguments.first_row = static_cast<std::int64_t>(first);
    arguments.is_last = first + kRows >= call.rows.size();
    const int launched = launch_table<P>(arguments, call, stream);
    if (launched != 0) return launched;
  }
  return 0;
}

}  // namespace

std::int64_t clip_parts(std::span<const ClipRow> rows) noexcept {
  const std::int64_t elements = elements_of(rows);
  const std::int64_t blocks =
      (elements >> chunk_bits_of(elements)) + static_cast<std::int64_t>(rows.size()) + 1;
  return 2 * blocks;  // of each a part and an end
}

int launch_clip_norm(const ClipNormCall& call, CUstream_st* stream) noexcept {
  return with_power(call.rule.p,
                    [&](auto power) { return launch_norm<decltype(power)::value>(call, stream); });
}

}  // namespace ddpscope::cuda
