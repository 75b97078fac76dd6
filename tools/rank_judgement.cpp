#include "tools/rank_judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "checks/ranks_judge.h"
#include "config/setting_types.h"
#include "exchange/rank_compare.h"
#include "model/rank_words.h"
#include "tools/live_findings.h"
#include "tools/progress_line.h"
#include "tools/rank_endings.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMaxHangMs = std::int64_t{1000} * 1'000'000;

/// As the ranks had it; of several the least.
std::int64_t hang_after_ms(const std::vector<RankFile*>& files) {
  std::int64_t least = kMaxHangMs;
  for (const RankFile* file : files) {
    const auto setting = file->run.settings.find("hang_after_s");
    if (setting == file->run.settings.end()) continue;
    const auto seconds = parse_integer(setting->second.value);
    if (seconds && *seconds > 0) least = std::min(least, std::min(*seconds, kMaxHangMs) * 1000);
  }
  return least == kMaxHangMs ? CompareOptions{}.hang_after_ms : least;
}

/// By rank.
NormSettings norm_settings(const std::vector<RankFile*>& files) {
  NormSettings settings;
  for (const RankFile* file : files) {
    const auto setting = file->run.settings.find("sync_batch_norm");
    if (setting == file->run.settings.end()) continue;
    const auto is_on = Switch::parse(setting->second.value);
    if (is_on) (*is_on ? settings.on : settings.off).push_back(file->run.rank);
  }
  std::ranges::sort(settings.on);
  std::ranges::sort(settings.off);
  return settings;
}

RanksEndedEvent run_endings(const RunEvidence& evidence) {
  std::vector<RankFile> of_run;
  for (const RankFile* file : evidence.files) {
    of_run.push_back({.path = file->path,
                      .run = file->run,
                      .progress = file->progress,
                      .last_step = file->last_step,
                      .summary = file->summary,
                      .ran_out = file->ran_out});
  }
  return endings_of(of_run, evidence.launches);
}

/// Ids that run on some rank.
std::set<std::string> enabled_checks(const std::vector<RankFile*>& files) {
  std::set<std::string> enabled;
  for (const RankFile* file : files) {
    for (const std::string& id : file->run.checks) {
      if (!file->run.blocked.contains(id)) enabled.insert(id);
    }
  }
  return enabled;
}

void tell_missing_rings(const RanksComparedEvent& compared, std::vector<std::string>& remarks) {
  if (compared.with_ring.empty()) return;
  std::vector<std::int64_t> missing;
  for (std::int64_t rank = 0; rank < compared.world_size; ++rank) {
    if (!std::ranges::binary_search(compared.with_ring, rank)) missing.push_back(rank);
  }
  if (missing.empty()) return;
  remarks.push_back(
      fmt::format("{} left no usable ring; steps and calls of {} of {} ranks are "
                  "compared",
                  rank_words(missing), compared.with_ring.size(), compared.world_size));
}

RanksComparedEvent compare(const RunEvidence& evidence, MergeOptions& options) {
  CompareOptions compare{.endings = run_endings(evidence),
                         .hang_after_ms = hang_after_ms(evidence.files)};
  compare.world_size = compare.endings.world_size;
  RingSet set = open_rings(evidence.rings, options.run_id);
  for (const RingReader& ring : set.rings) {
    compare.world_size = std::max(compare.world_size, ring.head().rank + 1);
  }
  ProgressLine line("comparing ranks");
  compare.progress = [&line](std::size_t done, std::size_t all) { line.tell(done, all); };
  RanksComparedEvent compared = compare_ranks(set.rings, compare);
  compared.norm_settings = norm_settings(evidence.files);
  std::ranges::move(set.remarks, std::back_inserter(options.remarks));
  tell_missing_rings(compared, options.remarks);
  std::ranges::copy(compared.remarks, std::back_inserter(options.remarks));
  return compared;
}

Coverage as_coverage(const CheckCoverage& told, const RanksComparedEvent& compared) {
  const bool ran = told.state == CheckState::kPassed || told.state == CheckState::kFailed;
  return {.state = ran ? CoverageState::kPassed : CoverageState::kBlocked,
          .why = told.why,
          .ranks = compared.with_ring};
}
}  // namespace

void judge_over_ranks(const RunEvidence& evidence, SuppressionList& suppressions,
                      MergeOptions& options) {
  const auto decide = [&suppressions](Finding& finding) {
    suppressions.decide_unless_suppressed(finding);
  };
  Findings live = take_live_findings(evidence.files);
  RanksJudgeOptions judging{.enabled = enabled_checks(evidence.files)};
  for (RankFile* file : evidence.files) {
    for (Finding& finding : file->findings) {
      decide(finding);
      judging.of_ranks.push_back(&finding);
    }
  }
  judging.decide_suppressed = decide;
  const RanksComparedEvent compared = compare(evidence, options);
  RanksJudgement judgement = judge_ranks(compared, judging);
  for (Finding& finding : live) decide(finding);
  add_live_findings(std::move(live), judging.of_ranks, judgement.findings);
  options.found_at_merge = std::move(judgement.findings);
  for (const auto& [id, told] : judgement.coverage) {
    options.judged_at_merge[id] = as_coverage(told, compared);
  }
}

}  // namespace ddpscope
