#include "report/merged_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "model/fact_keys.h"
#include "model/fingerprint.h"
#include "model/rank_words.h"
#include "records/report_dir.h"
#include "records/words.h"
#include "report/coverage.h"
#include "report/join_findings.h"
#include "report/leftover_suppressions.h"
#include "report/wording.h"

namespace ddpscope {
namespace {

constexpr std::size_t kMaxListedRanks = 1024;
constexpr std::size_t kMaxTold = 200;

/// Keeps the files of one run, one per rank, and says why the others are left out.
std::vector<RankFile> choose(std::vector<RankFile> files, const std::string& run_id,
                             std::vector<SkippedFile>& skipped,
                             std::set<std::int64_t>& of_other_runs) {
  std::ranges::stable_sort(files, {}, [](const RankFile& file) { return file.run.rank; });
  std::vector<RankFile> chosen;
  for (auto& file : files) {
    if (file.run.run_id != run_id) {
      skipped.push_back({file.path, fmt::format("it belongs to another run, {}", file.run.run_id)});
      of_other_runs.insert(file.run.rank);
    } else if (!chosen.empty() && chosen.back().run.rank == file.run.rank) {
      skipped.push_back(
          {file.path, fmt::format("rank {} was read from {}", file.run.rank, chosen.back().path)});
    } else {
      chosen.push_back(std::move(file));
    }
  }
  return chosen;
}

std::string missing_words(const std::vector<std::int64_t>& ranks) {
  if (ranks.size() == 2) return fmt::format("ranks {} and {}", ranks[0], ranks[1]);
  return rank_words(ranks);
}

std::string why_missing(const MergedReport& report, const MergeOptions& options) {
  std::vector<std::int64_t> cut_short;
  std::ranges::set_intersection(options.cut_short, report.missing_ranks,
                                std::back_inserter(cut_short));
  if (cut_short.empty()) {
    return "a rank without a record ran without ddpscope, wrote to another folder, or ended "
           "before its first line";
  }
  return fmt::format(
      "{} ended before the first line was complete",
      cut_short.size() == 1 ? rank_words(cut_short) : rank_words(cut_short) + " each");
}

std::vector<FactScalar> listed_ranks(const std::vector<std::int64_t>& ranks) {
  std::vector<FactScalar> listed(ranks.begin(), ranks.end());
  if (listed.size() > kMaxListedRanks) listed.resize(kMaxListedRanks);
  return listed;
}

Finding missing_finding(const MergedReport& report, const MergeOptions& options,
                        const std::set<std::int64_t>& of_other_runs) {
  const auto& missing = report.missing_ranks;
  std::vector<std::int64_t> elsewhere;
  std::ranges::set_intersection(missing, of_other_runs, std::back_inserter(elsewhere));
  const auto compared = static_cast<std::int64_t>(report.ranks.size());
  const std::string place = options.dir_name.empty() ? "the report folder" : options.dir_name;
  Finding finding = {
      .id = "tool-rank-missing",
      .rank = missing.front(),
      .phase = Phase::kExit,
      .what = fmt::format("{} left no record{} in {}; {} of {} ranks are compared",
                          missing_words(missing), elsewhere.empty() ? "" : " of this run", place,
                          compared, report.world_size),
      .why = elsewhere.empty() ? why_missing(report, options)
                               : fmt::format("{} {}", rank_words(elsewhere), kOtherRunWhy),
      .fixes = {{"load ddpscope on every rank", Applicability::kSafe},
                {"merge the folders of all hosts in one call", Applicability::kSafe}},
      .facts = {{fact::kMissingRanks, listed_ranks(missing)},
                {fact::kComparedCount, compared},
                {fact::kWorldSize, report.world_size}},
      .ranks = missing,
  };
  if (!elsewhere.empty()) {
    finding.fixes.insert(finding.fixes.begin(), {kOneRunFix, Applicability::kSafe});
  }
  finding.fingerprint = fingerprint_of(finding);
  return finding;
}

/// What came after the line is lost. A rank that still runs writes whole lines.
Finding truncated_finding(const std::vector<std::int64_t>& ranks, std::int64_t world_size) {
  Finding finding = {
      .id = "tool-rank-missing",
      .rank = ranks.front(),
      .phase = Phase::kExit,
      .subject = "last line",
      .what = fmt::format("the record{} of {} end{} within a line", ranks.size() == 1 ? "" : "s",
                          missing_words(ranks), ranks.size() == 1 ? "s" : ""),
      .why =
          "a full disk, a copy that was cut short, or a host that stopped; what the rank wrote "
          "after it is not known",
      .fixes = {{"copy the rank file again, or merge in the folder that the ranks wrote to",
                 Applicability::kLikely}},
      .facts = {{fact::kMissingRanks, listed_ranks(ranks)}, {fact::kWorldSize, world_size}},
      .ranks = ranks,
  };
  finding.fingerprint = fingerprint_of(finding);
  return finding;
}

/// What a rank that crashed noted last, where it did.
std::string last_words(const RankFile& file) {
  if (file.progress.empty()) return {};
  const ProgressRecord& last = file.progress.back();
  std::string why = last.signal;
  if (last.reason == "exception") {
    why = fmt::format("{} \"{}\"", last.exception, shortened(last.what, kMaxTold));
  }
  if (why.empty()) return {};
  return fmt::format(": {} in {} of step {}", why, word(last.phase), last.step);
}

void add_rank(MergedReport& report, const RankFile& file) {
  RankState state = {.run = file.run,
                     .has_summary = file.summary.has_value(),
                     .truncated = file.truncated,
                     .progress = file.progress,
                     .sampled_steps = file.steps,
                     .calls = {}};
  const std::string place = fmt::format("rank {}", file.run.rank);
  if (file.summary) {
    state.clean_exit = file.summary->clean_exit;
    state.steps = file.summary->steps;
    state.events_dropped = file.summary->events_dropped;
  } else {
    report.remarks.push_back(place + " ended without a summary" + last_words(file));
  }
  for (const auto& note : file.notes) report.remarks.push_back(place + ": " + note);
  report.world_size = std::max({report.world_size, file.run.world_size, file.run.rank + 1});
  report.ranks.push_back(std::move(state));
}

void add_models(MergedReport& report, const RankFile& file, std::set<std::string>& names) {
  for (const auto& model : file.models) {
    if (names.insert(model.name).second) report.models.push_back(model);
  }
}

void raise(std::optional<CostShare>& share, const std::optional<CostShare>& other) {
  if (!other) return;
  if (!share) share.emplace();
  share->us_per_step = std::max(share->us_per_step, other->us_per_step);
  share->percent = std::max(share->percent, other->percent);
}

void add_overhead(Overhead& overhead, const RankFile& file) {
  if (!file.summary) return;
  const auto larger = [](std::optional<double> known, std::optional<double> next) {
    return known && next ? std::max(known, next) : (known ? known : next);
  };
  overhead.percent = larger(overhead.percent, file.summary->overhead_percent);
  overhead.percent_first = larger(overhead.percent_first, file.summary->overhead_percent_first);
  for (const auto& [id, cost] : file.summary->overhead) {
    auto& own = overhead.checks[id];
    own.us_per_step = std::max(own.us_per_step, cost.us_per_step);
    own.percent = std::max(own.percent, cost.percent);
    raise(own.first, cost.first);
    raise(own.after, cost.after);
    own.coverage = std::min(own.coverage, cost.coverage);
    own.latency_steps = std::max(own.latency_steps, cost.latency_steps);
  }
}

void find_missing(MergedReport& report) {
  std::set<std::int64_t> present;
  for (const auto& rank : report.ranks) present.insert(rank.run.rank);
  for (std::int64_t rank = 0; rank < report.world_size; ++rank) {
    if (present.count(rank) == 0) report.missing_ranks.push_back(rank);
  }
}

}  // namespace

MergedReport merge(std::vector<RankFile> files, std::vector<SkippedFile> skipped,
                   const MergeOptions& options) {
  MergedReport report;
  report.tool_version = options.tool_version;
  report.skipped_files = std::move(skipped);
  std::vector<const RunRecord*> runs;
  for (const auto& file : files) runs.push_back(&file.run);
  report.run_id = options.run_id.empty() ? newest_run_id(runs) : options.run_id;
  std::set<std::int64_t> of_other_runs;
  files = choose(std::move(files), report.run_id, report.skipped_files, of_other_runs);

  std::set<std::string> model_names;
  Findings all = options.found_at_merge;
  for (const auto& file : files) {
    add_rank(report, file);
    add_models(report, file, model_names);
    add_overhead(report.overhead, file);
    all.insert(all.end(), file.findings.begin(), file.findings.end());
  }
  for (const std::int64_t rank : options.cut_short) {
    report.world_size = std::max(report.world_size, rank + 1);
  }
  if (!files.empty() || !options.cut_short.empty()) find_missing(report);
  const bool all_ended =
      report.missing_ranks.empty() && std::ranges::all_of(report.ranks, &RankState::has_summary);
  report.leftover_suppressions = leftover_suppressions(files, all_ended);
  if (!report.missing_ranks.empty()) all.push_back(missing_finding(report, options, of_other_runs));
  std::vector<std::int64_t> truncated;
  for (const RankState& rank : report.ranks) {
    if (rank.truncated) truncated.push_back(rank.run.rank);
  }
  if (!truncated.empty()) all.push_back(truncated_finding(truncated, report.world_size));
  report.findings = join_findings(std::move(all));
  report.coverage = coverage_of(files, report.findings, options.judged_at_merge);
  report.remarks.insert(report.remarks.end(), options.remarks.begin(), options.remarks.end());
  judge_again(report);
  return report;
}

}  // namespace ddpscope
