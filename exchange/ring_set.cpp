#include "exchange/ring_set.h"

#include <dirent.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "records/report_dir.h"

namespace ddpscope {
namespace {
constexpr std::string_view kEnd = ".ring";

/// A ring is named as the rank file beside it.
std::optional<std::int64_t> rank_of_ring(std::string_view name) {
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  return rank_of_file_name(std::string(name) + ".jsonl");
}

std::string why_unusable(RingReader& ring, const RingPlace& place, const std::string& run_id) {
  std::string problem = ring.open(place.path);
  if (!problem.empty()) return problem;
  const RingHead& head = ring.head();
  if (head.rank != place.rank) {
    return place.path + ": it says that it is of rank " + std::to_string(head.rank);
  }
  if (head.run_id != run_id) return place.path + ": it belongs to another run";
  // What is left would tell of a rank that stopped there.
  if (const std::size_t missing = ring.missing_bytes(); missing > 0) {
    return place.path + ": its last " + std::to_string(missing) + " bytes are cut off";
  }
  return {};
}
}  // namespace

std::vector<RingPlace> list_rings(const std::string& dir) {
  std::vector<RingPlace> places;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(dir.c_str()), &::closedir);
  if (!stream) return places;
  while (const dirent* entry = ::readdir(stream.get())) {
    const auto rank = rank_of_ring(entry->d_name);
    if (rank) places.push_back({.rank = *rank, .path = dir + "/" + entry->d_name});
  }
  std::ranges::sort(places, {}, &RingPlace::rank);
  return places;
}

namespace {
/// Ranks of which each made as many steps before their first call forgot to average in them.
bool are_steps_of_all(const std::vector<RingReader>& rings) {
  return rings.size() > 1 && std::ranges::all_of(rings, [&rings](const RingReader& ring) {
           const LoneSteps& lone = ring.lone_steps();
           return lone.by_call != 0 && lone.steps == rings.front().lone_steps().steps;
         });
}
}  // namespace

RingSet open_rings(const std::vector<RingPlace>& places, const std::string& run_id) {
  RingSet set;
  std::map<std::int64_t, RingReader> by_rank;
  for (const RingPlace& place : places) {
    RingReader ring;
    std::string problem = why_unusable(ring, place, run_id);
    if (problem.empty() && by_rank.contains(place.rank)) {
      problem = place.path + ": rank " + std::to_string(place.rank) + " was read before";
    }
    if (problem.empty()) {
      by_rank.emplace(place.rank, std::move(ring));
    } else {
      const bool is_read = ring.head().rank == place.rank && !ring.head().run_id.empty();
      if (is_read && ring.head().run_id != run_id) set.of_other_runs.push_back(place.rank);
      set.remarks.push_back(std::move(problem));
    }
  }
  for (auto& [rank, ring] : by_rank) set.rings.push_back(std::move(ring));
  if (are_steps_of_all(set.rings)) {
    for (RingReader& ring : set.rings) ring.show_lone_steps();
  }
  return set;
}

}  // namespace ddpscope
