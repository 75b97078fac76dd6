#include "ops/clip/cuda/rows.cuh"

namespace ddpscope::cuda {
namespace {

template <class Table>
struct WriteArguments {
  Table table;
  const ClipSums* sums;
  const double* factor;
  double limit;
  bool zeroes_bad;
};
static_assert(sizeof(WriteArguments<RowTable>) <= kArgumentBytes);

// Enough to fill any device; the bits do not depend on it.
constexpr int kMostBlocks = 4096;
constexpr int kChunkBits = 14;

template <ScalarKind K, class Change>
__device__ void change_elements(void* data, const Share& share, const Piece& piece,
                                const Change& change) {
  constexpr int kInFlight = 4, V = kVector<K>;
  const auto change_one = [&](int i) {
    store_elements<K, 1>(data, i, {{change(load_elements<K, 1>(data, i).bits[0])}});
  };
  for (int i = piece.lane; i < share.head; i += piece.lanes) change_one(i);
  const auto at = [&](int vector) { return share.head + vector * V; };
  const auto store = [&](int vector, Elements<K, V> elements) {
#pragma unroll
    for (int j = 0; j < V; ++j) elements.bits[j] = change(elements.bits[j]);
    store_elements<K, V>(data, at(vector), elements);
  };
  int i = piece.lane;
  for (; i + (kInFlight - 1) * piece.lanes < share.vectors; i += kInFlight * piece.lanes) {
    Elements<K, V> vectors[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      vectors[k] = load_elements<K, V>(data, at(i + k * piece.lanes));
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) store(i + k * piece.lanes, vectors[k]);
  }
  for (; i < share.vectors; i += piece.lanes) store(i, load_elements<K, V>(data, at(i)));
  for (i = share.tail + piece.lane; i < share.count; i += piece.lanes) change_one(i);
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

template <class Table>
struct Work {
  const WriteArguments<Table>& arguments;
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
    const Share share(kind, data, piece.elements * parts, piece.is_small ? 16 : kLine);
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

template <ClipWrite W, class Table>
__global__ void __launch_bounds__(kThreads, 4)
    write_kernel(const __grid_constant__ WriteArguments<Table> arguments) {
  const double factor = W == ClipWrite::kScale ? *arguments.factor : 1;
  if (W == ClipWrite::kScale && factor == 1 && !arguments.zeroes_bad) return;
  // Backwards: the end was read last and may still be in the cache.
  for (int block = arguments.table.blocks.all - 1 - static_cast<int>(blockIdx.x); block >= 0;
       block -= static_cast<int>(gridDim.x)) {
    const Piece piece = piece_of(arguments.table, block, /*at_lines=*/true);
    if (piece.row < 0) continue;
    const Work<Table> work = {arguments, piece, factor};
    with_kind(arguments.table.rows[piece.row].kind, [&](auto kind) { work.template run<W>(kind); });
  }
}

template <ClipWrite W, class Table>
int launch_table(WriteArguments<Table>& arguments, const ClipWriteCall& call, std::size_t first,
                 CUstream_st* stream) {
  arguments.sums = call.sums + first;
  arguments.factor = call.factor;
  arguments.limit = call.limit;
  arguments.zeroes_bad = call.zeroes_bad;
  const int blocks = std::min(arguments.table.blocks.all, kMostBlocks);
  return launch(write_kernel<W, Table>, {blocks, stream}, arguments);
}

template <ClipWrite W>
int launch_write(const ClipWriteCall& call, CUstream_st* stream) noexcept {
  if (call.listing.rows != nullptr) {
    WriteArguments<ListedRows> arguments = {.table = {call.listing}};
    return launch_table<W>(arguments, call, 0, stream);
  }
  WriteArguments<RowTable> arguments;
  for (std::size_t first = 0; first < call.rows.size(); first += kRows) {
    fill_table(call.rows, first, kChunkBits, arguments.table);
    const int launched = launch_table<W>(arguments, call, first, stream);
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
