#include "exchange/batch_sizes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::int64_t kMaxSize = 1 << 30;

/// Of `[32, 12] float32`.
BatchSize size_in(std::string_view text) {
  BatchSize batch{.rows = 0, .elements = 1};
  std::int64_t size = -1;  // of the dimension that is read
  for (const char letter : text.substr(0, text.find(']') + 1)) {
    if (letter >= '0' && letter <= '9') {
      size = std::min(std::max<std::int64_t>(size, 0) * 10 + (letter - '0'), kMaxSize);
    } else if (size >= 0) {
      if (batch.rows == 0) batch.rows = static_cast<double>(size);
      batch.elements *= static_cast<double>(std::exchange(size, -1));
    }
  }
  return batch;
}
}  // namespace

BatchSizes::BatchSizes(const RingReader& ring) {
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind == BlobKind::kBatch) sizes_[blob.step] = size_in(blob.bytes);
  }
}

BatchSize BatchSizes::at(std::int64_t step) const {
  const auto after = sizes_.upper_bound(step);
  return after == sizes_.begin() ? BatchSize{} : std::prev(after)->second;
}

}  // namespace ddpscope
