#include "ops/clip/cuda/rows.cuh"

namespace ddpscope::cuda {
namespace {

struct WriteArguments {
  RowTable table;
  const ClipSums* sums;
  const double* factor;
  double limit;
  bool zeroes_bad;
};
static_assert(sizeof(WriteArguments) <= kArgumentBytes);

// Enough to fill any device; the bits do not depend on it.
constexpr int kMostBlocks = 2048;

template <ScalarKind K, class Change>
__device__ void change_elements(void* data, const Share& share, const Piece& piece,
                                const Change& change) {
  const auto change_one = [&](std::int64_t i) {
    store_elements<K, 1>(data, i, {{change(load_elements<K, 1>(data, i).bits[0])}});
  };
  for (std::int64_t i = piece.lane; i < share.head; i += piece.lanes) change_one(i);
  for (std::int64_t i = piece.lane; i < share.vectors; i += piece.lanes) {
    const std::int64_t at = share.head + i * kVector<K>;
    auto elements = load_elements<K, kVector<K>>(data, at);
    for (auto& bits : elements.bits) bits = change(bits);
    store_elements<K, kVector<K>>(data, at, elements);
  }
  for (std::int64_t i = share.tail + piece.lane; i < share.count; i += piece.lanes) change_one(i);
}

/// The product is of float, or of double for double, and rounded once.
template <ScalarKind K>
struct Scaled {
  using Wide = typename Scalar<K>::Wide;
  Wide factor;
  __device__ typename Scalar<K>::Bits operator()(typename Scalar<K>::Bits bits) const {
    return Scalar<K>::narrow(Scalar<K>::widen(bits) * factor);
  }
};

template <ScalarKind K>
struct Zeroed {
  __device__ typename Scalar<K>::Bits operator()(typename Scalar<K>::Bits) const { return 0; }
};

/// NaN stays NaN, Inf becomes the limit.
template <ScalarKind K>
struct Clamped {
  using Wide = typename Scalar<K>::Wide;
  Wide limit;
  __device__ typename Scalar<K>::Bits operator()(typename Scalar<K>::Bits bits) const {
    const Wide value = Scalar<K>::widen(bits);
    if (value > limit) return Scalar<K>::narrow(limit);
    return value < -limit ? Scalar<K>::narrow(-limit) : bits;
  }
};

struct Work {
  const WriteArguments& arguments;
  const Piece& piece;
  double factor;  // kScale

  template <ClipWrite W, class Kind>
  __device__ void run(Kind kind) const {
    constexpr ScalarKind K = Kind::value;
    using Wide = typename Scalar<K>::Wide;
    const ClipRow& row = arguments.table.rows[piece.row];
    const int parts = row.is_complex ? 2 : 1;
    char* const data = static_cast<char*>(row.data) +
                       piece.begin * parts * static_cast<int>(sizeof(Elements<K, 1>));
    const Share share(kind, data, piece.elements * parts);
    const ClipSums& sums = arguments.sums[piece.row];
    if constexpr (W == ClipWrite::kClamp) {
      // The limit as the dtype of the gradient has it.
      const Wide limit = Scalar<K>::widen(Scalar<K>::narrow(static_cast<Wide>(arguments.limit)));
      if (sums.max_abs <= static_cast<double>(limit)) return;
      change_elements<K>(data, share, piece, Clamped<K>{limit});
    } else if (arguments.zeroes_bad && sums.nan_count + sums.inf_count > 0) {
      change_elements<K>(data, share, piece, Zeroed<K>{});
    } else if (factor != 1) {
      change_elements<K>(data, share, piece, Scaled<K>{static_cast<Wide>(factor)});
    }
  }
};

template <ClipWrite W>
__global__ void __launch_bounds__(kThreads)
    write_kernel(const __grid_constant__ WriteArguments arguments) {
  const double factor = W == ClipWrite::kScale ? *arguments.factor : 1;
  if (W == ClipWrite::kScale && factor == 1 && !arguments.zeroes_bad) return;
  // Backwards: the end was read last and may still be in the cache.
  for (int block = arguments.table.blocks - 1 - static_cast<int>(blockIdx.x); block >= 0;
       block -= static_cast<int>(gridDim.x)) {
    const Piece piece = piece_of(arguments.table, block);
    if (piece.row < 0) continue;
    const Work work = {arguments, piece, factor};
    with_kind(arguments.table.rows[piece.row].kind, [&](auto kind) { work.template run<W>(kind); });
  }
}

template <ClipWrite W>
int launch_write(const ClipWriteCall& call, CUstream_st* stream) noexcept {
  const std::int64_t chunk = chunk_of(elements_of(call.rows));
  WriteArguments arguments = {};
  arguments.factor = call.factor;
  arguments.limit = call.limit;
  arguments.zeroes_bad = call.zeroes_bad;
  for (std::size_t first = 0; first < call.rows.size(); first += kRows) {
    arguments.table = table_of(call.rows, first, chunk);
    arguments.sums = call.sums + first;
    const int blocks = std::min(arguments.table.blocks, kMostBlocks);
    const int launched = launch(write_kernel<W>, {blocks, stream}, arguments);
    if (launched != 0) return launched;
  }
  return 0;
}

}  // namespace

int launch_clip_write(const ClipWriteCall& call, CUstream_st* stream) noexcept {
  return call.write == ClipWrite::kScale ? launch_write<ClipWrite::kScale>(call, stream)
                                         : launch_write<ClipWrite::kClamp>(call, stream);
}

}  // namespace ddpscope::cuda
