#include "exchange/load_compare.h"

#include <algorithm>
#include <map>
#include <set>

namespace ddpscope {
namespace {
/// Ranks may do so on either side of one and the same step().
constexpr std::int64_t kNear = 1;
}  // namespace

void compare_loads(const RingList& rings, Cohort& cohort) {
  std::map<std::int64_t, std::set<std::int64_t>> loaded;
  for (const RingReader* ring : rings) {
    for (const Blob& blob : ring->blobs()) {
      if (blob.kind == BlobKind::kLoad) loaded[blob.step].insert(ring->head().rank);
    }
  }
  for (const auto& [step, ranks] : loaded) {
    std::set<std::int64_t> near;
    for (auto at = loaded.lower_bound(step - kNear);
         at != loaded.end() && at->first <= step + kNear; ++at) {
      near.insert(at->second.begin(), at->second.end());
    }
    if (near.size() == rings.size()) continue;
    cohort.loads.push_back({.step = step, .ranks = RankList(ranks.begin(), ranks.end())});
  }
}

}  // namespace ddpscope
