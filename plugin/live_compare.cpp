#include "plugin/live_compare.h"

#include <algorithm>
#include <string_view>

#include "checks/check_table.h"
#include "checks/ranks_judge.h"
#include "config/glob.h"
#include "exchange/rank_compare.h"
#include "model/clock.h"

namespace ddpscope {
namespace {
// A heart beats each second: who moves has moved by then.
constexpr std::int64_t kFirstPauseNs = 1'300'000'000;
constexpr std::int64_t kRenewEveryNs = 100'000'000;
constexpr std::int64_t kLongestPauseNs = 60'000'000'000;

constexpr std::string_view kLag = "rank-step-lag";
constexpr std::string_view kUnused = "grad-unused-rank-differs";  // a cause of hangs

std::set<std::string> checks_of_hangs(const Settings& settings) {
  std::set<std::string> ids;
  for (const CheckRow& row : check_table()) {
    const std::string id(row.id);
    const bool is_of_hangs = id.starts_with("collective-") || id == kLag || id == kUnused;
    if (is_of_hangs && check_enabled(settings.checks, id)) ids.insert(id);
  }
  return ids;
}
}  // namespace

LiveCompare::LiveCompare(const RunRecord& run, const Settings& settings)
    : rank_(run.rank),
      world_size_(run.world_size),
      hang_after_ms_(settings.hang_after_s * 1000),
      run_id_(run.run_id),
      checks_(checks_of_hangs(settings)) {}

RingSet LiveCompare::open() const { return open_rings(list_rings(dir_), run_id_); }

LiveCompare::Beats LiveCompare::beats_of(const RingSet& set) {
  Beats beats;
  for (const RingReader& ring : set.rings) {
    const Heartbeat beat = ring.heartbeat();
    beats[ring.head().rank] = {.progress = beat.progress, .unix_ns = beat.unix_ns};
  }
  return beats;
}

void LiveCompare::begin(const std::string& dir, std::int64_t now_ns) {
  if (due_ns_ != 0) return;  // of a hang that has become twice as old
  dir_ = dir;
  before_ = beats_of(open());
  // A rank that hangs stopped about when this one began to wait.
  moved_until_unix_ns_ = unix_ns() - hang_after_ms_ * kMsNs * 3 / 4;
  pause_ns_ = kFirstPauseNs;
  lag_told_ = false;
  due_ns_ = now_ns + pause_ns_;
}

// The worker of a rank may have been late with its beat: what that says is no movement.
void LiveCompare::renew_old_beats() {
  const auto is_old = [this](const auto& entry) {
    return entry.second.unix_ns < moved_until_unix_ns_;
  };
  if (std::ranges::none_of(before_, is_old)) return;
  for (const auto& [rank, beat] : beats_of(open())) {
    const auto before = before_.find(rank);
    if (before != before_.end() && is_old(*before)) before->second = beat;
  }
}

Findings LiveCompare::look(std::int64_t now_ns) {
  if (due_ns_ == 0) return {};
  if (pause_ns_ == kFirstPauseNs && now_ns >= renewal_ns_) {
    renewal_ns_ = now_ns + kRenewEveryNs;
    renew_old_beats();
  }
  if (now_ns < due_ns_) return {};
  Findings findings = compare();
  pause_ns_ *= 2;
  const bool is_explained = std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.id.starts_with("collective-"); });
  due_ns_ = is_explained || pause_ns_ > kLongestPauseNs ? 0 : now_ns + pause_ns_;
  tell_lag_once(findings);
  return findings;
}

void LiveCompare::tell_lag_once(Findings& findings) {
  if (lag_told_) std::erase_if(findings, [](const Finding& finding) { return finding.id == kLag; });
  lag_told_ = lag_told_ || std::ranges::find(findings, kLag, &Finding::id) != findings.end();
}

bool LiveCompare::is_first_of_waiting(const RanksComparedEvent& run) const {
  std::int64_t first = kMaxRank + 1;
  for (const Frontier& frontier : run.frontiers) {
    if (!frontier.waiting.empty()) first = std::min(first, frontier.waiting.front());
  }
  for (const RankStand& stand : run.stands) {
    if (run.frontiers.empty() && stand.is_open) first = std::min(first, stand.rank);
  }
  return first == rank_;
}

Findings LiveCompare::compare() const {
  const RingSet set = open();
  const std::int64_t now = unix_ns();
  CompareOptions options{.world_size = world_size_,
                         .endings = {},
                         .now_unix_ns = now,
                         .still_since_unix_ns = {},
                         .hang_after_ms = hang_after_ms_,
                         .progress = {}};
  for (const auto& [rank, beat] : beats_of(set)) {
    const auto before = before_.find(rank);
    const bool moves = before != before_.end() && before->second.progress != beat.progress;
    if (moves) options.still_since_unix_ns[rank] = now;
  }
  const RanksComparedEvent run = compare_ranks(set.rings, options);
  if (!is_first_of_waiting(run)) return {};
  RanksJudgement judgement = judge_ranks(run, {.enabled = checks_});
  std::erase_if(judgement.findings, [this](const Finding& finding) {
    const bool is_forecast = finding.id == kLag && finding.severity == Severity::kNote;
    return is_forecast || !checks_.contains(finding.id);
  });
  return std::move(judgement.findings);
}

}  // namespace ddpscope
