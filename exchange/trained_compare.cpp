#include <cstring>
#include <set>
#include <string>

#include "exchange/sides.h"
#include "exchange/tensor_compare.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
using Paths = std::set<std::string>;
using SidesByStep = std::map<std::int64_t, std::map<std::string, RankList>>;

std::string place_of(std::uint32_t model, const ListedTensor& tensor) {
  return std::to_string(model) + " " + tensor.path;
}

/// Of the parameters of a rank.
Paths paths_of(const RingReader& ring, std::int64_t step) {
  Paths paths;
  for (const auto& [model, list] : lists_at(ring.blobs(), step)) {
    for (const ListedTensor* tensor : in_told_order(list, /*with_buffers=*/false)) {
      paths.insert(place_of(model, *tensor));
    }
  }
  return paths;
}

Paths common_paths(const RingList& rings, std::int64_t step) {
  Paths common = paths_of(*rings.front(), step);
  for (const RingReader* ring : rings) {
    const Paths own = paths_of(*ring, step);
    std::erase_if(common, [&own](const std::string& path) { return !own.contains(path); });
  }
  return common;
}

/// Of each trainable parameter, by its place.
std::map<std::string, std::string> words_at(const std::vector<Blob>& blobs, std::int64_t step,
                                            const Paths& compared) {
  std::map<std::string, std::string> words;
  for (const auto& [model, list] : lists_at(blobs, step)) {
    const Blob* told = latest_blob(blobs, BlobKind::kFingerprints, model, step);
    if (told == nullptr || told->step != step) continue;
    const auto order = in_told_order(list, /*with_buffers=*/false);
    for (std::size_t i = 0; i < order.size() && (i + 1) * 8 <= told->bytes.size(); ++i) {
      const ListedTensor& tensor = *order[i];
      if (!tensor.requires_grad) continue;
      const std::string place = place_of(model, tensor);
      if (!compared.contains(place)) continue;
      words[place] = told->bytes.substr(i * 8, 8);
    }
  }
  return words;
}

std::string hash_text(const std::map<std::string, std::string>& words) {
  Hash hash;
  for (const auto& [place, word] : words) {
    hash.add(std::string_view(place));
    hash.add(std::string_view(word));
  }
  return std::to_string(hash.value());
}

std::set<std::int64_t> steps_after(std::int64_t after, const std::vector<Blob>& blobs) {
  std::set<std::int64_t> steps;
  for (const Blob& blob : blobs) {
    if (blob.kind == BlobKind::kFingerprints && blob.step > after) steps.insert(blob.step);
  }
  return steps;
}

void add_rank(const RingReader& ring, std::int64_t after, const Paths& compared,
              SidesByStep& sides) {
  const std::vector<Blob>& blobs = ring.blobs();
  for (const std::int64_t step : steps_after(after, blobs)) {
    sides[step][hash_text(words_at(blobs, step, compared))].push_back(ring.head().rank);
  }
}

SidesByStep sides_after(std::int64_t step, const RingList& rings, const Paths& compared) {
  SidesByStep sides;
  for (const RingReader* ring : rings) add_rank(*ring, step, compared, sides);
  return sides;
}

bool is_told_by_all(const std::vector<RankSide>& sides, const RingList& rings) {
  std::size_t told = 0;
  for (const RankSide& side : sides) told += side.ranks.size();
  return told == rings.size();
}
}  // namespace

std::vector<std::int64_t> steps_of_equal(const RingList& rings) {
  std::vector<std::int64_t> equal;
  for (const auto& [step, ranks_of] : sides_after(-1, rings, common_paths(rings, INT64_MAX))) {
    if (ranks_of.size() == 1 && is_told_by_all(as_sides(ranks_of), rings)) equal.push_back(step);
  }
  return equal;
}

namespace {
/// Of one parameter in one step, by all ranks.
struct Agreement {
  std::string first;
  bool differs = false;
  std::size_t ranks = 0;
};
using Agreements = std::map<std::int64_t, std::map<std::string, Agreement>>;

void add_rank(const RingReader& ring, const Paths& compared, Agreements& steps) {
  for (const std::int64_t step : steps_after(0, ring.blobs())) {
    for (const auto& [place, word] : words_at(ring.blobs(), step, compared)) {
      Agreement& found = steps[step][place];
      if (found.ranks++ == 0) found.first = word;
      found.differs |= found.first != word;
    }
  }
}
}  // namespace

bool some_become_equal(const RingList& rings) {
  if (rings.size() < 2) return false;
  Agreements steps;
  const Paths compared = common_paths(rings, INT64_MAX);
  for (const RingReader* ring : rings) add_rank(*ring, compared, steps);
  Paths parted;
  for (const auto& [step, places] : steps) {
    bool some_are_equal = false;
    bool some_differ = false;
    for (const auto& [place, found] : places) {
      if (found.ranks < rings.size()) continue;
      some_are_equal |= !found.differs && parted.contains(place);
      some_differ |= found.differs;
      if (found.differs) parted.insert(place);
    }
    if (some_are_equal && some_differ) return true;
  }
  return false;
}

std::optional<DigestsDiffer> later_difference(const RingList& rings, const DigestsDiffer& first) {
  const SidesByStep steps = sides_after(first.step, rings, common_paths(rings, first.step));
  DigestsDiffer later = first;
  later.equal_until = first.step;
  for (const auto& [step, ranks_of] : steps) {
    later.sides = as_sides(ranks_of);
    if (!is_told_by_all(later.sides, rings)) continue;
    later.step = step;
    if (later.sides.size() > 1) return later;
    later.equal_until = step;
  }
  return std::nullopt;
}

}  // namespace ddpscope
