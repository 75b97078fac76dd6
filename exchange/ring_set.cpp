#include "exchange/ring_set.h"

#include <dirent.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "exchange/call_blocks.h"
#include "records/report_dir.h"

namespace ddpscope {
namespace {
constexpr std::string_view kEnd = ".ring";
constexpr std::uint64_t kCallsLookedAt = 1024;

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
           return lone.end == LoneEnd::kWithCall && lone.steps == rings.front().lone_steps().steps;
         });
}

/// By group and number in it: the step after the lone ones, and as the rank counted.
using Steps = std::pair<std::int64_t, std::int64_t>;
using CallSteps = std::map<std::pair<std::uint64_t, std::uint64_t>, Steps>;

/// What ranks call together they call in one step: whether without their lone steps they do so less
/// often than with them.
bool come_apart(const std::vector<RingReader>& rings) {
  const auto made_some = [](const RingReader& ring) { return ring.lone_steps().steps > 0; };
  if (std::ranges::none_of(rings, made_some)) return false;
  CallSteps first;
  std::int64_t apart = 0;
  for (const RingReader& ring : rings) {
    const std::uint64_t end = std::min(ring.call_count(), ring.first_call() + kCallsLookedAt);
    for (auto place = ring.first_call(); place < end; ++place) {
      const auto call = ring.call(place);
      if (!call || !is_of_group(*call) || group_size(call->group) < 2) continue;
      if (call->step <= 0) continue;
      const Steps steps{call->step, call->step + ring.lone_steps().steps};
      const auto [same, is_new] = first.try_emplace({call->group, call->seq}, steps);
      if (is_new) continue;
      apart += same->second.first != steps.first ? 1 : 0;
      apart -= same->second.second != steps.second ? 1 : 0;
    }
  }
  return apart > 0;
}
/// Calls are compared by their numbers all the same. False: there are none.
bool hide_steps_of_threads(RingSet& set) {
  const auto by_threads = std::ranges::find_if(
      set.rings, [](const RingReader& ring) { return ring.lone_steps().end == LoneEnd::kNever; });
  if (by_threads == set.rings.end()) return false;
  set.remarks.push_back("threads of rank " + std::to_string(by_threads->head().rank) +
                        " step optimizers of their own side by side: the ranks' steps are not "
                        "compared");
  for (RingReader& ring : set.rings) {
    RingPart part = ring.shown();
    part.first_digest = part.digest_count;
    ring.show(part);
  }
  return true;
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
  if (hide_steps_of_threads(set)) return set;
  if (are_steps_of_all(set.rings) || come_apart(set.rings)) {
    for (RingReader& ring : set.rings) ring.show_lone_steps();
  }
  return set;
}

}  // namespace ddpscope
