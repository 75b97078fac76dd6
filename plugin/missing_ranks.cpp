#include "plugin/missing_ranks.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check_table.h"
#include "config/glob.h"
#include "exchange/ring_steps.h"
#include "model/fact_keys.h"
#include "model/fingerprint.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
constexpr std::string_view kMissingId = "tool-rank-missing";
constexpr std::int64_t kMillisecondNs = 1'000'000;
// Of a machine with more threads than cores a heart may beat late.
constexpr std::int64_t kMisses = 3;
constexpr std::size_t kMostListed = 1024;

std::int64_t last_step_unix_ns(const RingReader& ring) {
  const std::uint64_t count = ring.digest_count();
  const auto digest = count == 0 ? std::nullopt : ring.digest(count - 1);
  return digest ? digest->unix_ns : 0;
}

std::string heart_words(std::int64_t rank, std::int64_t age_ms) {
  const std::string of = "of rank " + std::to_string(rank);
  if (age_ms < 0) return of + " was never seen";
  return of + " is " + std::to_string(age_ms / 1000) + " s old";
}
}  // namespace

MissingRanks::MissingRanks(const RunRecord& run, const Settings& settings)
    : rank_(run.rank),
      world_size_(run.world_size),
      timeout_ms_(settings.exchange_timeout_ms),
      is_on_(check_enabled(settings.checks, std::string(kMissingId))) {}

std::optional<Finding> MissingRanks::look(const RingSet& set, Way way, std::int64_t now_ns) {
  const std::vector<RingReader>& rings = set.rings;
  const auto own = std::ranges::find(rings, rank_, [](const auto& one) { return one.head().rank; });
  if (!is_on_ || own == rings.end() || last_ended_step(*own) == 0) return std::nullopt;
  if (first_step_ns_ == 0) first_step_ns_ = now_ns;
  const std::int64_t waited_ms = (way == Way::kStore ? kMisses : 1) * timeout_ms_;
  if (now_ns - first_step_ns_ < waited_ms * kMillisecondNs) return std::nullopt;
  const Ages missing = missing_in(rings, way);
  if (missing.empty()) return std::nullopt;
  is_on_ = false;
  Finding finding = describe(missing, set, waited_ms);
  finding.step = finding.first_step = finding.last_step = last_ended_step(*own);
  return finding;
}

// That ranks wait for one whose heart does not beat is collective-hang: here the others go on. What
// is sent has the beats of then.
MissingRanks::Ages MissingRanks::missing_in(const std::vector<RingReader>& rings, Way way) const {
  std::int64_t last_step = 0;
  for (const RingReader& ring : rings) last_step = std::max(last_step, last_step_unix_ns(ring));
  Ages missing;
  for (std::int64_t rank = 0; way != Way::kNotKnown && rank < world_size_; ++rank) {
    missing[rank] = -1;
  }
  for (const RingReader& ring : rings) {
    const std::int64_t rank = ring.head().rank;
    const Heartbeat beat = ring.heartbeat();
    const std::int64_t waited = kMisses * timeout_ms_ * kMillisecondNs;
    const bool is_still = last_step - beat.unix_ns > waited;
    if (way == Way::kFolder && rank != rank_ && !beat.ended && is_still) {
      missing[rank] = (last_step - beat.unix_ns) / kMillisecondNs;
    } else {
      missing.erase(rank);
    }
  }
  return missing;
}

Finding MissingRanks::describe(const Ages& missing, const RingSet& set,
                               std::int64_t waited_ms) const {
  RankList ranks, elsewhere;
  std::string hearts;
  std::vector<FactScalar> listed, ages;
  for (const auto& [rank, age_ms] : missing) {
    ranks.push_back(rank);
    if (std::ranges::count(set.of_other_runs, rank) > 0) elsewhere.push_back(rank);
    if (listed.size() == kMostListed) continue;
    listed.emplace_back(rank);
    ages.emplace_back(age_ms);
    if (listed.size() <= 4) hearts += (hearts.empty() ? "" : ", ") + heart_words(rank, age_ms);
  }
  const std::int64_t compared = world_size_ - static_cast<std::int64_t>(missing.size());
  Finding finding{.id = std::string(kMissingId),
                  .severity = Severity::kWarning,
                  .rank = rank_,
                  .phase = Phase::kOptimizer,
                  .why = "the last heartbeat " + hearts,
                  .fixes = {{"load ddpscope on every rank", Applicability::kSafe},
                            {"let all ranks of a host report to one folder", Applicability::kSafe}},
                  .facts = {{fact::kMissingRanks, std::move(listed)},
                            {fact::kComparedCount, compared},
                            {fact::kWorldSize, world_size_},
                            {fact::kWaitedMs, waited_ms},
                            {fact::kHeartbeatAgeMs, std::move(ages)}},
                  .ranks = ranks};
  finding.what = rank_words(ranks) + " sent no record within " + std::to_string(waited_ms) +
                 " ms; comparing " + std::to_string(compared) + " of " +
                 std::to_string(world_size_) + " ranks";
  if (!elsewhere.empty()) {
    finding.why = rank_words(elsewhere) + " " + kOtherRunWhy;
    finding.fixes.insert(finding.fixes.begin(), {kOneRunFix, Applicability::kSafe});
  }
  finding.fingerprint = fingerprint_of(finding);
  return finding;
}

}  // namespace ddpscope
