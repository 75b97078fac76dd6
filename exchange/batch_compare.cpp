#include "exchange/batch_compare.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "exchange/sampler_shares.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxBatches = 256;
constexpr std::size_t kInARow = 3;
constexpr std::size_t kFewBatches = 8;
constexpr std::int64_t kSurveySteps = 2;
constexpr double kMostlyTheSame = 0.5;

using Batches = std::map<std::int64_t, std::uint64_t>;  ///< by step

Batches batches_of(const RingReader& ring) {
  Batches batches;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    const auto digest = ring.digest(place);
    if (!digest || digest->batch == 0) continue;
    if (batches.size() >= kMaxBatches && !batches.contains(digest->step)) break;
    batches[digest->step] = digest->batch;
  }
  return batches;
}

/// Three batches of steps in a row, each another one; none where they repeat or a step is missing.
using Row = std::array<std::uint64_t, kInARow>;
std::map<std::int64_t, Row> rows_of(const Batches& batches) {
  std::map<std::int64_t, Row> rows;
  for (const auto& [step, first] : batches) {
    const auto second = batches.find(step + 1);
    const auto third = batches.find(step + 2);
    if (second == batches.end() || third == batches.end()) continue;
    if (first != second->second && second->second != third->second && first != third->second) {
      rows[step] = {first, second->second, third->second};
    }
  }
  return rows;
}

/// Those of the first pass over the data: up to the first that comes again. Ranks that share the
/// data anew in each pass have all of it in several.
std::set<std::uint64_t> first_pass_of(const Batches& batches) {
  std::set<std::uint64_t> set;
  for (const auto& [step, batch] : batches) {
    if (!set.insert(batch).second) break;
  }
  return set;
}

double overlap_of(const std::set<std::uint64_t>& a, const std::set<std::uint64_t>& b) {
  const auto both =
      std::ranges::count_if(a, [&b](std::uint64_t batch) { return b.contains(batch); });
  return static_cast<double>(both) / static_cast<double>(std::min(a.size(), b.size()));
}

std::int64_t equal_steps(const std::vector<Batches>& batches, const std::vector<std::size_t>& of) {
  return std::ranges::count_if(batches[of.front()], [&](const auto& told) {
    return std::ranges::all_of(of, [&](std::size_t rank) {
      const auto found = batches[rank].find(told.first);
      return found != batches[rank].end() && found->second == told.second;
    });
  });
}

/// What the ring said last of it at that step.
std::string text_at(const RingReader& ring, BlobKind kind, std::int64_t step) {
  std::string text;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind == kind && blob.step <= step) text = blob.bytes;
  }
  return text;
}

class BatchComparison {
 public:
  BatchComparison(const RingList& rings, Cohort& cohort) : rings_(rings), cohort_(cohort) {
    for (const RingReader* ring : rings) batches_.push_back(batches_of(*ring));
  }

  void run() {
    std::map<std::int64_t, std::map<Row, std::vector<std::size_t>>> rows;
    for (std::size_t rank = 0; rank < batches_.size(); ++rank) {
      for (const auto& [step, row] : rows_of(batches_[rank])) rows[step][row].push_back(rank);
    }
    for (const auto& [step, of_step] : rows) {
      for (const auto& [row, ranks] : of_step) {
        if (ranks.size() > 1) add(step, ranks);
      }
      if (!cohort_.same_batches.empty()) break;
    }
    if (cohort_.same_batches.empty()) compare_sets();
    std::ranges::sort(cohort_.same_batches, {}, &SameBatches::ranks);
  }

 private:
  RankList numbers_of(const std::vector<std::size_t>& ranks) const {
    RankList numbers;
    for (const std::size_t rank : ranks) numbers.push_back(rings_[rank]->head().rank);
    return numbers;
  }

  // None where they differ.
  SamplerShare share_of(const std::vector<std::size_t>& ranks, std::int64_t step) const {
    const SamplerShare share = share_at(*rings_[ranks.front()], step);
    const bool is_one = std::ranges::all_of(
        ranks, [&](std::size_t rank) { return share_at(*rings_[rank], step) == share; });
    return is_one ? share : SamplerShare{};
  }

  void add(std::int64_t step, const std::vector<std::size_t>& ranks) {
    cohort_.same_batches.push_back(
        {.step = step,
         .ranks = numbers_of(ranks),
         .steps = equal_steps(batches_, ranks),
         .overlap_ratio = 1,
         .shape = text_at(*rings_[ranks.front()], BlobKind::kBatch, step),
         .share = share_of(ranks, step)});
  }

  // The same batches in another order on each rank.
  void compare_sets() {
    std::vector<std::set<std::uint64_t>> sets;
    for (const Batches& batches : batches_) sets.push_back(first_pass_of(batches));
    double least = 1;
    for (std::size_t rank = 1; rank < sets.size(); ++rank) {
      if (std::min(sets[0].size(), sets[rank].size()) < kFewBatches) return;
      least = std::min(least, overlap_of(sets[0], sets[rank]));
    }
    if (sets.size() < 2 || least <= kMostlyTheSame) return;
    SameBatches same{.step = batches_[0].rbegin()->first,
                     .ranks = {},
                     .steps = static_cast<std::int64_t>(batches_[0].size()),
                     .overlap_ratio = least,
                     .shape = text_at(*rings_[0], BlobKind::kBatch, batches_[0].begin()->first),
                     .in_another_order = true};
    std::vector<std::size_t> all(rings_.size());
    std::iota(all.begin(), all.end(), 0);
    same.ranks = numbers_of(all);
    same.share = share_of(all, same.step);
    cohort_.same_batches.push_back(std::move(same));
  }

  const RingList& rings_;
  Cohort& cohort_;
  std::vector<Batches> batches_;
};

/// Ranks that differ in one step draw differently from there on, or will.
void compare_random(const RingList& rings, Cohort& cohort) {
  std::map<std::int64_t, std::vector<std::uint64_t>> states;  // of the ranks, by step
  for (const RingReader* ring : rings) {
    for (auto place = ring->first_digest(); place < ring->digest_count(); ++place) {
      const auto digest = ring->digest(place);
      if (digest && digest->random != 0) states[digest->step].push_back(digest->random);
    }
  }
  SameRandom same;
  for (const auto& [step, of_ranks] : states) {
    if (of_ranks.size() != rings.size()) continue;
    const bool equal = std::ranges::all_of(
        of_ranks, [&](std::uint64_t state) { return state == of_ranks.front(); });
    if (!equal) return;
    if (same.steps++ == 0) same.step = step;
  }
  if (same.steps < kSurveySteps) return;
  for (const RingReader* ring : rings) same.ranks.push_back(ring->head().rank);
  const std::string text = text_at(*rings.front(), BlobKind::kRandom, same.step);
  const std::size_t op = text.find(' ');
  const std::size_t module = op == std::string::npos ? op : text.find(' ', op + 1);
  if (module != std::string::npos) {
    same.seed = text.substr(0, op);
    same.op = text.substr(op + 1, module - op - 1);
    same.module = text.substr(module + 1);
  }
  cohort.same_random.push_back(std::move(same));
}
}  // namespace

void compare_batches(const RingList& rings, Cohort& cohort) {
  if (rings.size() < 2) return;
  BatchComparison(rings, cohort).run();
  compare_random(rings, cohort);
}

}  // namespace ddpscope
