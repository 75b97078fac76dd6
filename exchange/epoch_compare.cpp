#include "exchange/epoch_compare.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

#include "exchange/sides.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMostBatches = std::int64_t{1} << 30;

/// 0 where it is no number of batches.
std::int64_t batches_in(std::string_view text) {
  std::int64_t batches = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), batches);
  const bool is_whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return is_whole && batches > 0 && batches < kMostBatches ? batches : 0;
}

using RanksOf = std::map<std::string, RankList>;
}  // namespace

void compare_epochs(const RingList& rings, Cohort& cohort) {
  if (rings.size() < 2 || rings.size() < cohort.ranks.size()) return;
  std::map<std::int64_t, RanksOf> begun;
  for (const RingReader* ring : rings) {
    std::map<std::int64_t, std::int64_t> own;
    for (const Blob& blob : ring->blobs()) {
      if (blob.kind == BlobKind::kEpoch) own[blob.step] = batches_in(blob.bytes);
    }
    for (const auto& [step, batches] : own) {
      if (batches > 0) begun[step][std::to_string(batches)].push_back(ring->head().rank);
    }
  }
  for (const auto& [step, ranks_of] : begun) {
    std::size_t told = 0;
    std::int64_t least = kMostBatches;
    for (const auto& [batches, ranks] : ranks_of) {
      told += ranks.size();
      least = std::min(least, batches_in(batches));
    }
    if (ranks_of.size() < 2 || told < rings.size()) continue;
    cohort.epochs.push_back({.step = step, .least = least, .sides = as_sides(ranks_of)});
    return;
  }
}

}  // namespace ddpscope
