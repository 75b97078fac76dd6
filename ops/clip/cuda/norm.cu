#include "ops/clip/cuda/finish.cuh"
#include "ops/clip/cuda/rows.cuh"

namespace ddpscope::cuda {
namespace {

struct NormArguments {
  RowTable table;
  ClipRule rule;
  ClipLayout layout;
  ClipBuffers buffers;
  std::int64_t first_row;  // of the list
  bool is_last;            // no rows come after these
};
static_assert(sizeof(NormArguments) <= kArgumentBytes);

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
      sum += pow(magnitude, p);
  }
}

template <class Wide>
struct Lane {
  double power_sum = 0;
  Wide max_abs = 0;
  int nan_count = 0, inf_count = 0;

  __device__ explicit Lane(PowerKind power)
      : power_sum(power == PowerKind::kSmallest ? kInfinite : 0) {}

  __device__ void add(PowerKind power, Wide magnitude, double p) {
    if (!(magnitude < static_cast<Wide>(kInfinite))) {
      if (magnitude == magnitude) {
        ++inf_count;
      } else {
        ++nan_count;
      }
    }
    if (magnitude > max_abs) max_abs = magnitude;
    add_power(power, static_cast<double>(magnitude), p, power_sum);
  }
  __device__ ClipSums sums() const {
    return {power_sum, static_cast<double>(max_abs), nan_count, inf_count, 0, 0};
  }
};

template <ScalarKind K, class Add>
__device__ void add_elements(const void* data, const Share& share, const Piece& piece, Add add) {
  constexpr int kInFlight = 4;
  using Vector = Elements<K, kVector<K>>;
  for (std::int64_t i = piece.lane; i < share.head; i += piece.lanes) {
    add(Scalar<K>::widen(load_elements<K, 1>(data, i).bits[0]));
  }
  std::int64_t i = piece.lane;
  for (; i + (kInFlight - 1) * piece.lanes < share.vectors; i += kInFlight * piece.lanes) {
    Vector vectors[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      vectors[k] =
          load_elements<K, kVector<K>>(data, share.head + (i + k * piece.lanes) * kVector<K>);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      for (const auto bits : vectors[k].bits) add(Scalar<K>::widen(bits));
    }
  }
  for (; i < share.vectors; i += piece.lanes) {
    const Vector vector = load_elements<K, kVector<K>>(data, share.head + i * kVector<K>);
    for (const auto bits : vector.bits) add(Scalar<K>::widen(bits));
  }
  for (i = share.tail + piece.lane; i < share.count; i += piece.lanes) {
    add(Scalar<K>::widen(load_elements<K, 1>(data, i).bits[0]));
  }
}

/// A complex number that holds a NaN is one NaN, and one Inf where it holds that, too.
template <ScalarKind K>
__device__ ClipSums add_complex(const void* data, const Piece& piece, PowerKind power, double p) {
  Lane<double> lane(power);
  for (std::int64_t i = piece.lane; i < piece.elements; i += piece.lanes) {
    const double real = Scalar<K>::widen(load_elements<K, 1>(data, 2 * i).bits[0]);
    const double imaginary = Scalar<K>::widen(load_elements<K, 1>(data, 2 * i + 1).bits[0]);
    const bool has_nan = real != real || imaginary != imaginary;
    const bool has_inf = fabs(real) == kInfinite || fabs(imaginary) == kInfinite;
    lane.inf_count += has_nan && has_inf;
    lane.add(power, has_nan ? NAN : hypot(real, imaginary), p);
  }
  return lane.sums();
}

template <PowerKind P>
__device__ ClipSums measure(const ClipRow& row, const Piece& piece, double p) {
  return with_kind(row.kind, [&](auto kind) -> ClipSums {
    constexpr ScalarKind K = decltype(kind)::value;
    const auto* const data =
        static_cast<const char*>(row.data) +
        piece.begin * (row.is_complex ? 2 : 1) * static_cast<int>(sizeof(Elements<K, 1>));
    if (row.is_complex) return add_complex<K>(data, piece, P, p);
    using Wide = typename Scalar<K>::Wide;
    Lane<Wide> lane(P);
    add_elements<K>(data, Share(kind, data, piece.elements), piece,
                    [&](Wide value) { lane.add(P, value < 0 ? -value : value, p); });
    return lane.sums();
  });
}

template <PowerKind P>
__global__ void __launch_bounds__(kThreads)
    norm_kernel(const __grid_constant__ NormArguments arguments) {
  const RowTable& table = arguments.table;
  const ClipBuffers& buffers = arguments.buffers;
  const Piece piece = piece_of(table, static_cast<int>(blockIdx.x));
  ClipSums sums = neutral<P>();
  if (piece.row >= 0) sums = measure<P>(table.rows[piece.row], piece, arguments.rule.p);
  sums = merge_warp<P>(sums);
  // A block has small rows or a piece of a large one: the same for all of its threads.
  const bool is_small = table.rows[last_row_from(table, blockIdx.x)].elements <= kSmallRow;
  if (is_small) {
    if (piece.row >= 0 && piece.lane == 0) {
      buffers.rows[arguments.first_row + piece.row] = as_row<P>(sums, table.rows[piece.row]);
    }
  } else {
    sums = merge_warps<P>(sums);
    if (threadIdx.x == 0) buffers.parts[blockIdx.x] = sums;
  }
  if (!is_last_block(buffers.ticket, table.blocks)) return;
  for (int row = static_cast<int>(threadIdx.x) / kWarp; row < table.count; row += kWarps) {
    finish_row<P>(table, row, buffers.parts, buffers.rows + arguments.first_row);
  }
  __syncthreads();
  if (arguments.is_last && buffers.result != nullptr) {
    finish<P>(arguments.rule, arguments.layout, buffers);
  }
}

template <PowerKind P>
int launch_norm(const ClipNormCall& call, CUstream_st* stream) noexcept {
  const std::int64_t chunk = chunk_of(elements_of(call.rows));
  NormArguments arguments = {};
  arguments.rule = call.rule;
  arguments.layout = call.layout;
  arguments.buffers = call.buffers;
  // A list without rows has a result, too.
  for (std::size_t first = 0; first == 0 || first < call.rows.size(); first += kRows) {
    arguments.table = table_of(call.rows, first, chunk);
    arguments.table.blocks = std::max(arguments.table.blocks, 1);
    arguments.first_row = static_cast<std::int64_t>(first);
    arguments.is_last = first + kRows >= call.rows.size();
    const int launched = launch(norm_kernel<P>, {arguments.table.blocks, stream}, arguments);
    if (launched != 0) return launched;
  }
  return 0;
}

}  // namespace

std::int64_t clip_parts(std::span<const ClipRow> rows) noexcept {
  return elements_of(rows) / chunk_of(elements_of(rows)) + static_cast<std::int64_t>(rows.size()) +
         1;
}

int launch_clip_norm(const ClipNormCall& call, CUstream_st* stream) noexcept {
  const double p = call.rule.p;
  if (p == 2) return launch_norm<PowerKind::kSquares>(call, stream);
  if (p == 1) return launch_norm<PowerKind::kMagnitudes>(call, stream);
  if (p == 0 || p == kInfinite) return launch_norm<PowerKind::kNone>(call, stream);
  if (p == -kInfinite) return launch_norm<PowerKind::kSmallest>(call, stream);
  return launch_norm<PowerKind::kPowers>(call, stream);
}

}  // namespace ddpscope::cuda
