#include "exchange/rank_compare.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "exchange/arrival_compare.h"
#include "exchange/batch_compare.h"
#include "exchange/call_compare.h"
#include "exchange/calls_apart.h"
#include "exchange/cohorts.h"
#include "exchange/digest_walk.h"
#include "exchange/dropped_averages.h"
#include "exchange/epoch_compare.h"
#include "exchange/frontier.h"
#include "exchange/graph_compare.h"
#include "exchange/load_compare.h"
#include "exchange/loss_compare.h"
#include "exchange/nonfinite_compare.h"
#include "exchange/one_sender.h"
#include "exchange/reduction_compare.h"
#include "exchange/sampler_shares.h"
#include "exchange/sent_compare.h"
#include "exchange/step_calls.h"
#include "exchange/steps_apart.h"
#include "exchange/summed_weights.h"
#include "exchange/sync_patterns.h"
#include "exchange/tensor_compare.h"
#include "exchange/unreduced_parts.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
/// The clocks of hosts differ, and a hostile ring says anything: this far ahead is not believed.
constexpr std::int64_t kFarAheadNs = std::int64_t{24} * 3600 * 1'000'000'000;

/// Of the models as the rank told them last; 0: it told of none.
std::uint64_t structure_of(const RingReader& ring) {
  for (auto place = ring.digest_count(); place > ring.first_digest(); --place) {
    const auto digest = ring.digest(place - 1);
    if (digest && digest->structure != 0) return digest->structure;
  }
  return 0;
}

class Comparison {
 public:
  Comparison(const std::vector<RingReader>& rings, const CompareOptions& options)
      : rings_(rings), options_(options) {
    result_.world_size = options.world_size;
    result_.live = options.now_unix_ns != 0;
    result_.hang_after_ms = options.hang_after_ms;
    result_.endings = options.endings;
    for (const RingReader& ring : rings) result_.with_ring.push_back(ring.head().rank);
  }

  RanksComparedEvent run() {
    for (const RingReader& ring : rings_) {
      calls_.push_back(read_calls(ring));
      result_.calls += calls_.back().count;
      tell_progress();
    }
    add_times();
    compare_calls();
    compare_digests();
    return std::move(result_);
  }

 private:
  void tell_progress() {
    ++done_;
    if (options_.progress) options_.progress(done_, 2 * rings_.size());
  }

  void add_times() {
    for (const RankEnding& ending : options_.endings.ranks) {
      if (!ending.unix_ns) continue;
      times_.ended_ns[ending.rank] = *ending.unix_ns;
      times_.end_ns = std::max(times_.end_ns, *ending.unix_ns);
    }
    const std::int64_t latest =
        times_.end_ns == 0 ? INT64_MAX
                           : std::min(times_.end_ns, INT64_MAX - kFarAheadNs) + kFarAheadNs;
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      for (const std::int64_t ns : {rings_[i].heartbeat().unix_ns, calls_[i].last_unix_ns}) {
        if (ns < latest) times_.end_ns = std::max(times_.end_ns, ns);
      }
    }
    if (options_.now_unix_ns != 0) times_.end_ns = options_.now_unix_ns;
  }

  void compare_calls() {
    const CallGroups groups = call_groups(rings_, calls_, options_.world_size);
    add_remarks(groups.remarks);
    for (const CallGroup& group : groups.groups) {
      if (auto difference = first_difference(group)) {
        result_.calls_differ.push_back(*std::move(difference));
      }
      if (auto frontier = frontier_of(group, times_)) {
        for (RankStand& stand : frontier->stands) tell_motion(stand);
        result_.frontiers.push_back(*std::move(frontier));
      }
    }
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      const std::uint64_t group = calls_[i].last_group;
      const auto found = calls_[i].groups.find(group);
      const GroupMember member{&rings_[i],
                               found == calls_[i].groups.end() ? nullptr : &found->second};
      result_.stands.push_back(stand_of(member, group));
      tell_motion(result_.stands.back());
    }
  }

  void tell_motion(RankStand& stand) const {
    if (!result_.live) return;
    const auto ms_since = [this](std::int64_t ns) {
      return ns > 0 && ns < options_.now_unix_ns ? (options_.now_unix_ns - ns) / 1'000'000 : 0;
    };
    if (stand.beat_unix_ns > 0) stand.silent_ms = ms_since(stand.beat_unix_ns);
    const auto still = options_.still_since_unix_ns.find(stand.rank);
    if (still != options_.still_since_unix_ns.end()) stand.still_ms = ms_since(still->second);
  }

  void compare_digests() {
    RankCohorts found = cohorts_of(calls_);
    add_remarks(found.remarks);
    const RankList alone = take_apart(found);
    for (const RingReader& ring : rings_) {
      result_.digests += static_cast<std::int64_t>(ring.digest_count() - ring.first_digest());
    }
    result_.has_models =
        std::ranges::any_of(rings_, [](const RingReader& ring) { return structure_of(ring) != 0; });
    for (const RankList& ranks : found.cohorts) {
      Cohort& cohort = result_.cohorts.emplace_back();
      cohort.ranks = ranks;
      cohort.parts = parts_of(ranks, found.groups);
      compare(cohort, [this] { tell_progress(); });
    }
    if (!result_.live && found.cohorts.size() > 1 && alone.empty()) compare_across(found.cohorts);
  }

  /// Out of the cohort of all go those that no average was to reach, and that have another model or
  /// leave the steps to others.
  RankList take_apart(RankCohorts& found) {
    if (found.outside.empty()) return {};
    RankList& all = found.cohorts.front();
    const auto is_outside = [&found](const RingReader& ring) {
      return std::ranges::binary_search(found.outside, ring.head().rank);
    };
    std::set<std::uint64_t> averaged;
    for (const RingReader& ring : rings_) {
      if (!is_outside(ring)) averaged.insert(structure_of(ring));
    }
    RankList apart;
    for (const RingReader& ring : rings_) {
      if (!is_outside(ring)) continue;
      const bool is_apart = !averaged.contains(structure_of(ring)) || !steps_itself(ring);
      if (is_apart) apart.push_back(ring.head().rank);
    }
    if (apart.empty()) return {};
    std::erase_if(all, [&](std::int64_t rank) { return std::ranges::binary_search(apart, rank); });
    const bool is_one = apart.size() == 1;
    add_remarks({rank_words(apart) + (is_one ? " averages" : " average") +
                 " with no other rank: what " + (is_one ? "it computes" : "they compute") +
                 " is not compared with " + rank_words(all)});
    found.cohorts.push_back(apart);
    return apart;
  }

  RingList rings_of(const Cohort& cohort) const {
    RingList rings;
    for (const RingReader& ring : rings_) {
      if (std::ranges::binary_search(cohort.ranks, ring.head().rank)) rings.push_back(&ring);
    }
    return rings;
  }

  void compare(Cohort& cohort, const std::function<void()>& after_each) {
    const RingList rings = rings_of(cohort);
    for (const RankCalls& rank : calls_) {
      if (!std::ranges::binary_search(cohort.ranks, rank.rank)) continue;
      cohort.averages = cohort.averages || std::ranges::any_of(rank.groups, [](const auto& group) {
                          return group.second.writes_gradients;
                        });
    }
    cohort.exchanges_tensors =
        std::ranges::any_of(rings, [](const RingReader* ring) { return exchanges_tensors(*ring); });
    cohort.broadcasts_at_start = std::ranges::all_of(
        rings, [](const RingReader* ring) { return broadcasts_at_start(*ring); });
    walk_digests(rings, cohort, after_each);
    if (!result_.live) count_open_steps(cohort);
    compare_tensors(rings, cohort);
    cohort.never_sent = compare_sent_weights(rings);
    if (!cohort.averages) cohort.summed_steps = steps_of_sums(rings, cohort);
    const bool complete = static_cast<std::int64_t>(rings_.size()) == options_.world_size;
    compare_reductions(rings, complete, cohort);
    cohort.dropped_steps = steps_of_dropped_averages(rings, cohort);
    if (complete) compare_senders(rings, cohort);
    if (complete) cohort.unreduced_parts = steps_of_unreduced_parts(rings, cohort);
    compare_batches(rings, cohort);
    compare_arrivals(rings, cohort);
    compare_losses(rings, cohort);
    compare_sync_patterns(rings, cohort);
    compare_epochs(rings, cohort);
    if (complete) compare_shares(rings, result_.live, options_.world_size, cohort);
    compare_loads(rings, cohort);
    compare_graphs(rings, cohort);
    compare_nonfinite(rings, cohort);
    compare_steps_of_calls(rings, cohort);
    if (auto remark = forget_steps_apart(rings, cohort); !remark.empty()) add_remarks({remark});
  }

  void compare_across(const std::vector<RankList>& cohorts) {
    Cohort all{.parts = cohorts};
    for (const RankList& ranks : cohorts) std::ranges::copy(ranks, std::back_inserter(all.ranks));
    std::ranges::sort(all.ranks);
    const RingList rings = rings_of(all);
    const auto across = groups_across(cohorts, calls_);
    const bool exchanges = std::ranges::any_of(
        rings, [&](const RingReader* ring) { return exchanges_tensors(*ring, &across); });
    if (exchanges) return;
    walk_digests(rings, all, [] {});
    if (!all.equal_at_start) return;
    compare_reductions(rings, /*complete=*/false, all);
    result_.apart = std::move(all);
  }

  // A rank that was ended from outside, or ended itself at once, left no digest of the step of its
  // last call, nor, where it had not come to that, of the one before.
  void count_open_steps(Cohort& cohort) const {
    for (RankCounts& counts : cohort.counts) {
      const auto stand = std::ranges::find(result_.stands, counts.rank, &RankStand::rank);
      if (stand == result_.stands.end()) continue;
      const CallRecord& call = stand->last.record;
      const bool averages = call.phase == Phase::kBackward || call.phase == Phase::kReduce;
      if (!averages || call.step <= counts.step) continue;
      const bool is_regular = counts.step > 0 && counts.backwards % counts.step == 0;
      if (is_regular) counts.backwards = counts.backwards / counts.step * (call.step - 1);
      ++counts.backwards;
      counts.step = call.step;
    }
  }

  void add_remarks(const std::vector<std::string>& remarks) {
    std::ranges::copy(remarks, std::back_inserter(result_.remarks));
  }

  const std::vector<RingReader>& rings_;
  const CompareOptions& options_;
  std::vector<RankCalls> calls_;
  RankTimes times_;
  RanksComparedEvent result_;
  std::size_t done_ = 0;
};
}  // namespace

RanksComparedEvent compare_ranks(const std::vector<RingReader>& rings,
                                 const CompareOptions& options) {
  return Comparison(rings, options).run();
}

}  // namespace ddpscope
