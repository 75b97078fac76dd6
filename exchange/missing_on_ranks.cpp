#include "exchange/missing_on_ranks.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "model/missing_causes.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxAsked = 16;

RankList ranks_without(const GradientSetsDiffer& gradients) {
  RankList ranks;
  for (const GradientSide& side : gradients.parameters) {
    ranks.insert(ranks.end(), side.without.begin(), side.without.end());
  }
  std::ranges::sort(ranks);
  const auto rest = std::ranges::unique(ranks);
  ranks.erase(rest.begin(), rest.end());
  if (ranks.size() > kMaxAsked) ranks.resize(kMaxAsked);
  return ranks;
}

void add_causes_of(const RingReader& ring, GradientSetsDiffer& gradients) {
  const std::int64_t rank = ring.head().rank;
  const std::vector<Blob>& blobs = ring.blobs();
  for (const auto& [model, list] : lists_at(blobs, gradients.step)) {
    const Blob* const told = latest_blob(blobs, BlobKind::kMissing, model, gradients.step);
    const Blob* const set = latest_blob(blobs, BlobKind::kGradients, model, gradients.step);
    if (told == nullptr || set == nullptr || told->step != set->step) continue;
    std::unordered_map<std::string_view, std::size_t> places;
    const auto order = in_told_order(list, /*with_buffers=*/false);
    for (std::size_t i = 0; i < order.size(); ++i) places.try_emplace(order[i]->path, i);
    for (GradientSide& side : gradients.parameters) {
      if (side.model != list.model || std::ranges::count(side.without, rank) == 0) continue;
      const auto place = places.find(side.path);
      const auto cause =
          place == places.end() ? std::nullopt : missing_at(told->bytes, place->second);
      if (cause.has_value()) side.causes.push_back({*cause, {rank}});
    }
  }
}
}  // namespace

std::string encode_missing(const std::vector<std::string>& causes) {
  std::string bytes;
  for (const std::string& cause : causes) {
    const auto word = std::ranges::find(kMissingCauses, cause);
    const bool is_known = word != kMissingCauses.end();
    bytes.push_back(is_known ? static_cast<char>(word - kMissingCauses.begin() + 1) : '\0');
  }
  return bytes.find_first_not_of('\0') == std::string::npos ? "" : bytes;
}

std::optional<std::string> missing_at(std::string_view bytes, std::size_t place) {
  if (place >= bytes.size()) return std::nullopt;
  const auto word = static_cast<unsigned char>(bytes[place]);
  if (word == 0 || word > kMissingCauses.size()) return std::nullopt;
  return std::string(kMissingCauses[word - 1]);
}

void add_causes(const RingList& rings, GradientSetsDiffer& gradients) {
  for (const std::int64_t rank : ranks_without(gradients)) {
    const auto ring = std::ranges::find_if(
        rings, [rank](const RingReader* one) { return one->head().rank == rank; });
    if (ring != rings.end()) add_causes_of(**ring, gradients);
  }
}

}  // namespace ddpscope
