#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "ops/device/scalar_kind.h"

struct CUstream_st;  // cudaStream_t points to it

/// Clipping on a device: what the kernels are given. Plain data; pointers are of device memory.
namespace ddpscope::cuda {

/// One gradient, a flat run of elements. 24 bytes, for many travel in the argument of a launch.
struct ClipRow {
  void* data = nullptr;
  std::int64_t elements = 0;     // a complex one is two values
  std::int32_t first_block = 0;  // of the launch; made by `assign_blocks`
  std::uint16_t module = 0;
  ScalarKind kind = ScalarKind::kFloat;
  bool is_complex = false;
};
static_assert(sizeof(ClipRow) == 24);

inline constexpr std::int32_t kNoRow = std::numeric_limits<std::int32_t>::max();

/// What one gradient holds, a part of it, or a group of them.
struct alignas(16) ClipSums {
  double power_sum = 0;  // of |g|^p; for p = -inf the smallest |g|; nothing for p = 0 and inf
  double max_abs = 0;    // of what is no NaN
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  std::int32_t is_present = 0;  // has elements; of a group of rows: their number
  std::int32_t module = 0;
  std::int32_t first_bad = kNoRow;  // of a group: the first row with what is not finite
};

/// The result: 8-byte items, one after the other.
struct ClipLayout {
  std::int64_t rows = 0;
  std::int64_t modules = 0;

  // Double: total norm, coefficient, and what every gradient is multiplied by.
  static constexpr std::int64_t kTotal = 0, kCoefficient = 1, kFactor = 2;
  static constexpr std::int64_t kFirstBad = 3;  // Long
  static constexpr std::int64_t kFlags = 4;     // two Floats: found_inf, grad_scale
  static constexpr std::int64_t kNorms = 5;     // Double, one per row
  constexpr std::int64_t max_abs() const { return kNorms + rows; }           // Double
  constexpr std::int64_t nan_counts() const { return kNorms + 2 * rows; }    // Long
  constexpr std::int64_t inf_counts() const { return kNorms + 3 * rows; }    // Long
  constexpr std::int64_t module_norms() const { return kNorms + 4 * rows; }  // Double
  constexpr std::int64_t items() const { return module_norms() + modules; }
};

/// Written by the device where the norm is not finite, into memory of the host that both see.
struct ClipNotice {
  double total = 0;
  std::int64_t first_bad = -1;
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  volatile std::int64_t is_there = 0;  // last
};

struct ClipRule {
  double p = 2;
  double max_norm = 0;
  double eps = 0;
  bool unscales = false;    // `inverse_scale` is given: a bad element means no clipping
  bool spares_bad = false;  // no factor where the norm is not finite
  bool zeroes_bad = false;  // bad gradients become 0 and count for nothing
  const float* inverse_scale = nullptr;
};

struct ClipBuffers {
  ClipSums* rows = nullptr;     // one per gradient
  ClipSums* parts = nullptr;    // `clip_parts`
  unsigned* tickets = nullptr;  // 1 + one per gradient, zero before and after
  double* result = nullptr;     // of ClipLayout; null: only `rows` are made
  ClipNotice* notice = nullptr;
};

/// Blocks of a launch.
struct Blocks {
  int all = 0;
  int last = 0;  // that end a row, or some small ones
};

/// A list in memory of the device, for which one launch is enough; made by `list_rows`.
struct ClipListing {
  const ClipRow* rows = nullptr;               // null: rows travel in the arguments of launches
  const std::int32_t* row_of_block = nullptr;  // the last row that begins in it or before
  const std::int32_t* end_of_block = nullptr;  // blocks before it that end a row or some
  int count = 0;
  Blocks blocks;
  int chunk_bits = 0;
};

struct ClipNormCall {
  std::span<const ClipRow> rows;
  ClipListing listing;  // of the same rows
  ClipRule rule;
  ClipLayout layout;
  ClipBuffers buffers;
};

/// The sums that several devices made of one list, together on one of them.
struct ClipJoinCall {
  const ClipSums* sums = nullptr;  // of each device one per row, neutral for a row elsewhere
  int devices = 0;
  ClipRule rule;
  ClipLayout layout;
  ClipBuffers buffers;  // no parts and no tickets
};

enum class ClipWrite : std::uint8_t { kScale, kClamp };

/// Writes nothing of a gradient that stays as it is.
struct ClipWriteCall {
  std::span<const ClipRow> rows;
  ClipListing listing;  // of the same rows
  ClipWrite write = ClipWrite::kScale;
  const ClipSums* sums = nullptr;  // of these rows
  const double* factor = nullptr;  // kScale
  bool zeroes_bad = false;         // kScale
  double limit = 0;                // kClamp
};

/// Parts that a norm needs memory for.
std::int64_t clip_parts(std::span<const ClipRow> rows) noexcept;
/// Makes the sums of all rows, and the result from them: a launch per 1,344 rows, or one of a
/// listing. Each returns the code of the launch that failed, 0 if none did; waits for nothing,
/// allocates nothing.
int launch_clip_norm(const ClipNormCall& call, CUstream_st* stream) noexcept;
/// Makes the sums of all rows, and the result from them, in one launch of one block.
int launch_clip_join(const ClipJoinCall& call, CUstream_st* stream) noexcept;
/// As `launch_clip_norm`. No two rows may share memory.
int launch_clip_write(const ClipWriteCall& call, CUstream_st* stream) noexcept;

}  // namespace ddpscope::cuda
