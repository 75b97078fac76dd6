#include "values/tensor_values.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "values/float_mode.h"
#include "values/kernels.h"
#include "values/lane.h"

namespace ddpscope {
namespace {

using namespace values;

struct Source {
  const unsigned char* data = nullptr;
  std::int64_t elements = 0;
  ScalarKind kind = ScalarKind::kFloat;
  BlockKernel kernel = nullptr;
};

int bytes_of(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::kHalf:
    case ScalarKind::kBFloat16:
      return 2;
    case ScalarKind::kFloat:
      return 4;
    case ScalarKind::kDouble:
      break;
  }
  return 8;
}

struct Cleaned {
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
};

/// Copies `elements` to `target` with zeros in place of NaN and Inf.
template <ScalarKind Kind>
Cleaned copy_finite(const unsigned char* source, int elements, unsigned char* target) {
  using Element = Scalar<Kind>;
  typename Element::Bits bits;
  Cleaned counts;
  for (int i = 0; i < elements; ++i, source += sizeof bits, target += sizeof bits) {
    std::memcpy(&bits, source, sizeof bits);
    const auto magnitude = bits & Element::kMagnitude;
    counts.inf_count += magnitude == Element::kInfinity;
    counts.nan_count += magnitude > Element::kInfinity;
    if (magnitude >= Element::kInfinity) bits = 0;
    std::memcpy(target, &bits, sizeof bits);
  }
  return counts;
}

Cleaned copy_finite(const Source& source, const unsigned char* begin, int elements,
                    unsigned char* target) {
  switch (source.kind) {
    case ScalarKind::kHalf:
      return copy_finite<ScalarKind::kHalf>(begin, elements, target);
    case ScalarKind::kBFloat16:
      return copy_finite<ScalarKind::kBFloat16>(begin, elements, target);
    case ScalarKind::kFloat:
      return copy_finite<ScalarKind::kFloat>(begin, elements, target);
    case ScalarKind::kDouble:
      break;
  }
  return copy_finite<ScalarKind::kDouble>(begin, elements, target);
}

struct Buffer {
  alignas(64) unsigned char bytes[kBlockElements * kMaxElementBytes];
};

/// Measures again without what is not finite; the first pass knows the fingerprint.
TensorValues measure_finite(const Source& source, const unsigned char* begin, int groups,
                            std::uint64_t key) {
  Buffer buffer;
  const Cleaned counts = copy_finite(source, begin, groups * kGroupElements, buffer.bytes);
  TensorValues values = source.kernel(buffer.bytes, groups, key).values;
  values.nan_count = counts.nan_count;
  values.inf_count = counts.inf_count;
  values.zero_count -= counts.nan_count + counts.inf_count;
  return values;
}

/// The groups of one block; the last one ends in zeros.
struct Groups {
  const unsigned char* begin = nullptr;
  int count = 0;
  int elements = 0;
  int padding = 0;
};

Groups groups_of(const Source& source, std::int64_t block, Buffer& padded) {
  const std::int64_t first = block * kBlockElements;
  Groups groups;
  groups.elements =
      static_cast<int>(std::min<std::int64_t>(kBlockElements, source.elements - first));
  groups.count = (groups.elements + kGroupElements - 1) / kGroupElements;
  groups.padding = groups.count * kGroupElements - groups.elements;
  const auto element_bytes = static_cast<std::size_t>(bytes_of(source.kind));
  groups.begin = source.data + static_cast<std::size_t>(first) * element_bytes;
  if (groups.padding == 0) return groups;
  const std::size_t bytes = static_cast<std::size_t>(groups.elements) * element_bytes;
  std::memcpy(padded.bytes, groups.begin, bytes);
  std::memset(padded.bytes + bytes, 0, static_cast<std::size_t>(groups.padding) * element_bytes);
  groups.begin = padded.bytes;
  return groups;
}

std::uint64_t length_part(const Groups& groups) {
  return static_cast<std::uint64_t>(groups.elements) * kLengthKey;
}

TensorValues measure_block(const Source& source, std::int64_t block) {
  Buffer padded;
  const Groups groups = groups_of(source, block, padded);
  const std::uint64_t key = key_of_block(block);
  const BlockValues measured = source.kernel(groups.begin, groups.count, key);
  TensorValues values = measured.values;
  if (measured.has_nonfinite) {
    values = measure_finite(source, groups.begin, groups.count, key);
    values.fingerprint = measured.values.fingerprint;
  }
  values.zero_count -= groups.padding;
  values.fingerprint += length_part(groups);
  return values;
}

/// The binary tree over `count` blocks, a power of two; what lies beyond the tensor adds nothing.
TensorValues measure_tree(const Source& source, std::int64_t first, std::int64_t count) {
  if (first * kBlockElements >= source.elements) return {};
  if (count == 1) return measure_block(source, first);
  const TensorValues left = measure_tree(source, first, count / 2);
  return merge(left, measure_tree(source, first + count / 2, count / 2));
}

Source source_of(const TensorData& tensor, ValuePath path) {
  return {static_cast<const unsigned char*>(tensor.data), tensor.elements, tensor.kind,
          block_kernels_of(path).by_kind[static_cast<int>(tensor.kind)]};
}

}  // namespace

std::int64_t chunk_count(const TensorData& tensor) {
  return (tensor.elements + kChunkElements - 1) / kChunkElements;
}

TensorValues measure_values(const TensorData& tensor, ValuePath path) {
  const PlainFloatMode plain;
  const std::int64_t blocks = (tensor.elements + kBlockElements - 1) / kBlockElements;
  const auto leaves = std::bit_ceil(static_cast<std::uint64_t>(blocks));
  return with_one_nan(measure_tree(source_of(tensor, path), 0, static_cast<std::int64_t>(leaves)));
}

void measure_values(std::span<const TensorData> tensors, std::span<TensorValues> results) {
  for (std::size_t i = 0; i < tensors.size(); ++i) results[i] = measure_values(tensors[i]);
}

std::uint64_t fingerprint_of(const TensorData& tensor, ValuePath path) {
  const Source source = source_of(tensor, path);
  const BitsKernel bits = block_kernels_of(path).bits_by_kind[static_cast<int>(tensor.kind)];
  std::uint64_t sum = 0;
  Buffer padded;
  for (std::int64_t block = 0; block * kBlockElements < tensor.elements; ++block) {
    const Groups groups = groups_of(source, block, padded);
    sum += bits(groups.begin, groups.count, key_of_block(block)) + length_part(groups);
  }
  return sum;
}

TensorValues measure_chunk(const TensorData& tensor, std::int64_t chunk, ValuePath path) {
  const PlainFloatMode plain;
  constexpr std::int64_t kBlocks = kChunkElements / kBlockElements;
  return measure_tree(source_of(tensor, path), chunk * kBlocks, kBlocks);
}

void ChunkSum::add(const TensorValues& chunk) {
  TensorValues subtree = chunk;
  int level = 0;
  for (; (count_ >> level & 1) != 0; ++level) subtree = merge(subtrees_[level], subtree);
  subtrees_[level] = subtree;
  ++count_;
}

TensorValues ChunkSum::total() const {
  TensorValues total;
  for (int level = 0; level < kLevels; ++level) {
    if ((count_ >> level & 1) != 0) total = merge(subtrees_[level], total);
  }
  return with_one_nan(total);
}

}  // namespace ddpscope
