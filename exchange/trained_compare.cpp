#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "exchange/sides.h"
#include "exchange/sketch_compare.h"
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

namespace {
/// What the parameters of all ranks do over the compared steps.
struct Averaged {
  std::vector<std::int64_t> steps;  ///< in which some were equal again and others were not
  Paths never;                      ///< those that were not in any step, and others were in two
};

Averaged averaged_in(const Agreements& steps, std::size_t ranks) {
  Averaged averaged;
  Paths parted;
  std::map<std::string, std::int64_t> times;  // in which it was equal again
  for (const auto& [step, places] : steps) {
    Paths equal_again;
    Paths differ;
    for (const auto& [place, found] : places) {
      if (found.ranks < ranks) continue;
      if (found.differs) differ.insert(place);
      if (!found.differs && parted.contains(place)) equal_again.insert(place);
    }
    parted.insert(differ.begin(), differ.end());
    for (const std::string& place : equal_again) ++times[place];
    if (!equal_again.empty() && !differ.empty()) averaged.steps.push_back(step);
  }
  // One that was equal once may be of several that take turns; few of them are so by chance.
  const auto is_regular = [](const auto& entry) { return entry.second >= 2; };
  const bool are_most = 2 * times.size() >= parted.size();
  if (!are_most || !std::ranges::all_of(times, is_regular)) return averaged;
  for (const std::string& place : parted) {
    if (!times.contains(place)) averaged.never.insert(place);
  }
  return averaged;
}

std::string module_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

/// Those of `places` alone.
void keep_only(ValuesDiffer& values, const Paths& places) {
  Paths paths;
  for (const std::string& place : places) paths.insert(place.substr(place.find(' ') + 1));
  std::erase_if(values.tensors, [&](const auto& one) { return !paths.contains(one.path); });
  values.differing = std::ssize(places);
  values.module_path = common_module(values.tensors);
}

/// As of averages that each rank adds up in another order.
bool is_rounding(const ValuesDiffer& values) {
  constexpr double kRounding = 1e-5;
  return !values.estimate.empty() && values.estimate.front().relative < kRounding;
}

/// Null where not all ranks tell of that step.
std::optional<DigestsDiffer> difference_in(const RingList& rings, std::int64_t step,
                                           const Paths& compared) {
  const auto steps = sides_after(step - 1, rings, compared);
  const auto found = steps.find(step);
  if (found == steps.end()) return std::nullopt;
  return DigestsDiffer{
      .field = DigestField::kParameters, .step = step, .sides = as_sides(found->second)};
}
}  // namespace

std::string common_module(std::span<const DifferingTensor> tensors) {
  std::string common = tensors.empty() ? "" : module_of(tensors.front().path);
  for (const DifferingTensor& tensor : tensors) {
    if (tensor.model != tensors.front().model) return "";
    while (!common.empty() && !tensor.path.starts_with(common + ".")) common = module_of(common);
  }
  return common;
}

void compare_averaged_weights(const RingList& rings, Cohort& cohort) {
  if (rings.size() < 2) return;
  Agreements steps;
  const Paths compared = common_paths(rings, INT64_MAX);
  for (const RingReader* ring : rings) add_rank(*ring, compared, steps);
  Averaged averaged = averaged_in(steps, rings.size());
  cohort.partly_equal_steps = std::move(averaged.steps);
  if (averaged.never.empty()) return;
  const auto difference = difference_in(rings, cohort.partly_equal_steps.front(), compared);
  if (!difference) return;
  ValuesDiffer values = compare_values(rings, *difference);
  keep_only(values, averaged.never);
  estimate_difference(rings, *difference, values);
  if (!is_rounding(values)) cohort.never_averaged = std::move(values);
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
