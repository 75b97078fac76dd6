#pragma once

#include <cstdint>
#include <span>

namespace ddpscope {

enum class ScalarKind : std::uint8_t { kHalf, kBFloat16, kFloat, kDouble };

/// Dense elements; `data` need not be aligned on the CPU, and is aligned to one element on a GPU.
struct TensorData {
  const void* data = nullptr;
  std::int64_t elements = 0;
  ScalarKind kind = ScalarKind::kFloat;
};

inline constexpr int kSketchSize = 4;

/// What one pass over a tensor tells. Equal bits in, equal bits out: on every path of the CPU, with
/// every number of threads, and on a GPU.
struct TensorValues {
  double sum_of_squares = 0;  ///< of the finite elements; their products and sums in double
  double absmax = 0;          ///< of the finite elements; 0 if there are none
  /// sum of s_k(i) * x_i over the finite elements, with s_k(i) = +1 or -1 from the position alone:
  /// linear, so the mean over ranks of the local sketches is the sketch of the mean.
  double sketch[kSketchSize] = {};
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  std::int64_t zero_count = 0;  ///< of either sign
  /// Of the raw bits and their positions: a sum over words of 8 bytes, so chunks add up in any
  /// order. Any change inside one half of a word changes it for certain if one bit changed, else
  /// with about 1 - 2^-32.
  std::uint64_t fingerprint = 0;

  friend bool operator==(const TensorValues&, const TensorValues&) = default;
};

/// Sums run over fixed blocks of 1024 elements, each in 4 rows of 8 lanes, joined as a binary tree
/// over the block's index; a chunk is one subtree. So the sum of n squares is off by at most
/// (37 + log2(n / 1024)) * 2^-53 of itself.
inline constexpr std::int64_t kChunkElements = 32768;
std::int64_t chunk_count(const TensorData& tensor);

/// How the CPU computes; all give the same bits. `kBest` is what the processor can do.
enum class ValuePath : std::uint8_t { kBest, kPortable, kAvx2, kAvx512 };
bool is_available(ValuePath path);

/// The whole tensor, on the calling thread. Thread: any. Throws nothing, allocates nothing.
TensorValues measure_values(const TensorData& tensor, ValuePath path = ValuePath::kBest);

/// `results[i]` of `tensors[i]`; both are of one length.
void measure_values(std::span<const TensorData> tensors, std::span<TensorValues> results);

/// The fingerprint of `measure_values` alone, bound by memory.
std::uint64_t fingerprint_of(const TensorData& tensor, ValuePath path = ValuePath::kBest);

/// Chunk number `chunk` of the tensor alone, for callers with threads of their own.
TensorValues measure_chunk(const TensorData& tensor, std::int64_t chunk,
                           ValuePath path = ValuePath::kBest);

/// Joins the chunks of one tensor, added in order from chunk 0.
class ChunkSum {
 public:
  void add(const TensorValues& chunk);
  TensorValues total() const;

 private:
  static constexpr int kLevels = 48;
  TensorValues subtrees_[kLevels];  // at level n: 2^n chunks, where bit n of count_ is set
  std::int64_t count_ = 0;
};

}  // namespace ddpscope
