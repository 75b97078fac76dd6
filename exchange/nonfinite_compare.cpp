#include "exchange/nonfinite_compare.h"

#include <array>
#include <cstring>

namespace ddpscope {
namespace {
constexpr char kLineEnd = '\n';  // of model and path, before the sentence
using NonfiniteCounts = std::array<std::int64_t, 2>;

/// The first one that this rank tells, with its step.
std::optional<NonfiniteOrigin> first_of(const RingReader& ring) {
  std::optional<NonfiniteOrigin> first;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind != BlobKind::kNonfinite || (first && first->step <= blob.step)) continue;
    auto told = decode_nonfinite(blob.bytes);
    if (!told) continue;
    first = {.step = blob.step,
             .ranks = {ring.head().rank},
             .nan_count = told->nan_count,
             .inf_count = told->inf_count,
             .model = std::move(told->model),
             .path = std::move(told->path),
             .what = std::move(told->what)};
  }
  return first;
}
}  // namespace

std::string encode(const ToldNonfinite& told) {
  const NonfiniteCounts counts = {told.nan_count, told.inf_count};
  std::string bytes(sizeof counts, '\0');
  std::memcpy(bytes.data(), counts.data(), sizeof counts);
  return bytes + told.model + kLineEnd + told.path + kLineEnd + told.what;
}

std::optional<ToldNonfinite> decode_nonfinite(std::string_view bytes) {
  NonfiniteCounts counts = {};
  if (bytes.size() < sizeof counts) return std::nullopt;
  std::memcpy(counts.data(), bytes.data(), sizeof counts);
  bytes.remove_prefix(sizeof counts);
  const std::size_t model = bytes.find(kLineEnd);
  const std::size_t path = model == bytes.npos ? model : bytes.find(kLineEnd, model + 1);
  if (path == bytes.npos || counts[0] < 0 || counts[1] < 0) return std::nullopt;
  return ToldNonfinite{.nan_count = counts[0],
                       .inf_count = counts[1],
                       .model = std::string(bytes.substr(0, model)),
                       .path = std::string(bytes.substr(model + 1, path - model - 1)),
                       .what = std::string(bytes.substr(path + 1))};
}

void compare_nonfinite(const RingList& rings, Cohort& cohort) {
  if (rings.size() < cohort.ranks.size()) return;  // another one may have been first
  std::optional<NonfiniteOrigin> origin;
  for (const RingReader* ring : rings) {
    auto first = first_of(*ring);
    if (!first || (origin && origin->step < first->step)) continue;
    if (origin && origin->step == first->step) {
      origin->ranks.push_back(first->ranks.front());
    } else {
      origin = std::move(first);
    }
  }
  if (origin) cohort.nonfinite.push_back(*std::move(origin));
}

}  // namespace ddpscope
