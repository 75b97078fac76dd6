// How a run ends: the summary record and, with one rank, the reports.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "checks/check_table.h"
#include "checks/ranks_judge.h"
#include "model/clock.h"
#include "plugin/log.h"
#include "plugin/worker.h"
#include "records/report_dir.h"
#include "report/report_writer.h"

namespace ddpscope {
namespace {
constexpr std::size_t kToldSuppressions = 1000;

void count(const Finding& finding, SummaryRecord& record) {
  if (finding.suppressed) return;
  ++record.counts_by_id[finding.id];
  if (finding.severity == Severity::kError) ++record.errors;
  if (finding.severity == Severity::kWarning) ++record.warnings;
  if (finding.severity == Severity::kNote) ++record.notes;
}

std::string parent_folder(const std::string& file) {
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

// As short as where we stand allows.
std::string shown_path(const std::string& path) {
  std::error_code error;
  const auto here = std::filesystem::current_path(error).string() + "/";
  return !error && path.starts_with(here) ? path.substr(here.size()) : path;
}

/// A cycle may be of several steps.
std::int64_t steps_in(std::int64_t cycles, const RunCosts& costs, std::int64_t steps) {
  const auto all = static_cast<double>(costs.coverage.cycles + costs.full_cycles);
  const double steps_per_cycle = std::max(static_cast<double>(steps) / all, 1.0);
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(cycles) * steps_per_cycle));
}

// How much of the run a check saw, once hooks kept to their budget.
void add_coverage(const std::string& id, const RunCosts& costs, std::int64_t steps,
                  CheckCost& cost) {
  const CostGovernor::Coverage& seen = costs.coverage;
  const CheckRow* row = find_check(id);
  if (seen.cycles == 0 || row == nullptr) return;
  const bool reads_values = row->level != CheckLevel::kWatch;
  const std::int64_t gap = reads_values ? seen.longest_values_gap : seen.longest_gap;
  const auto watched = static_cast<double>(reads_values ? seen.full : seen.structure);
  cost.coverage = watched / static_cast<double>(seen.cycles);
  cost.latency_steps = steps_in(gap + 1, costs, steps);
}

constexpr const char* kMergeCompares = "ddpscope merge compares the ranks";

std::map<std::string, Coverage> blocked_over_ranks(const RunRecord& run) {
  std::map<std::string, Coverage> coverage;
  const RanksJudgeOptions options{.enabled = {run.checks.begin(), run.checks.end()}};
  for (const auto& [id, told] : judge_ranks({.world_size = 1}, options).coverage) {
    coverage[id] = {.state = CoverageState::kBlocked,
                    .why = run.world_size > 1 ? kMergeCompares : told.why,
                    .ranks = {run.rank}};
  }
  return coverage;
}

void add_blocked_over_ranks(const RunRecord& run, SummaryRecord& record) {
  for (const auto& [id, coverage] : blocked_over_ranks(run)) {
    record.blocked.emplace(id, coverage.why);
  }
}
}  // namespace

SummaryRecord Worker::summary(const RunCosts& costs) {
  const std::int64_t steps = std::max(costs.steps, last_step_);
  SummaryRecord record{.steps = steps,
                       .events_dropped = queue_.dropped(),
                       .overhead_percent = costs.overhead_percent,
                       .overhead_percent_first = costs.overhead_percent_first,
                       .clean_exit = costs.clean_exit};
  for (Finding finding : all_findings()) {
    suppressions_.decide(finding);
    count(finding, record);
  }
  for (const auto& [id, coverage] : judge_.coverage()) {
    if (coverage.state == CheckState::kPassed) record.passed.push_back(id);
    if (coverage.state == CheckState::kFailed) record.failed.push_back(id);
    if (coverage.state == CheckState::kBlocked || coverage.state == CheckState::kOff) {
      record.blocked[id] = coverage.why;
    }
    CheckCost& cost = record.overhead[id];
    cost = first_costs_.cost_of(id, coverage.cost_ns, costs.wall_ms, steps);
    add_coverage(id, costs, steps, cost);
  }
  if (options_.run.world_size == 1) add_blocked_over_ranks(options_.run, record);
  if (costs.difference.pairs > 0) {
    const CostGovernor::Difference& told = costs.difference;
    record.watched = WatchedCost{.share = static_cast<double>(costs.coverage.structure) /
                                          static_cast<double>(costs.coverage.cycles),
                                 .pairs = told.pairs,
                                 .resting_ms = told.resting_ms,
                                 .extra_percent = 100 * told.watched_extra,
                                 .lower_percent = 100 * told.lower,
                                 .upper_percent = 100 * told.upper};
  }
  if (!costs.faulted_source.empty()) {
    record.blocked["source " + costs.faulted_source] = "a hook of this source failed";
  }
  return record;
}

std::int64_t Worker::unjudged() const {
  const std::uint64_t put = queue_.put_count(), taken = queue_.taken_count();
  return put > taken ? static_cast<std::int64_t>(put - taken) : 0;
}

void Worker::leave_unjudged(std::chrono::milliseconds limit) {
  left_unjudged_ = std::max<std::int64_t>(unjudged(), 1);
  log_warning(std::to_string(left_unjudged_) + " events could not be judged within " +
              std::to_string(limit.count() / 1000) +
              " s after the end of the program: the report lacks what they show");
}

// A glob with a slip in it declares nothing. One rank says it for all.
void Worker::tell_idle_declarations() const {
  if (options_.run.rank != 0) return;
  for (const DeclarationEvent& idle : judge_.state().declarations().without_effect()) {
    log_warning("declare: " + idle.path_glob + "=" + idle.kind +
                " covers no module and no tensor of any model");
  }
}

// No check can say then that it found nothing.
void Worker::add_unjudged(SummaryRecord& record) const {
  if (left_unjudged_ == 0) return;
  record.clean_exit = false;
  record.events_dropped += left_unjudged_;
  for (const std::string& id : record.passed) {
    record.blocked[id] = "the last " + std::to_string(left_unjudged_) + " events were not judged";
  }
  record.passed.clear();
}

std::optional<ExitEvent::Rested> Worker::rested(const RunCosts& costs) const {
  const CostGovernor::Coverage& seen = costs.coverage;
  const bool of_values =
      options_.settings.level != Level::kWatch && costs.values_every >= CostGovernor::kRarest;
  const bool of_all = costs.structure_every >= CostGovernor::kRarest;
  if (seen.wall_ms <= 0 || !(of_all || of_values)) return std::nullopt;
  const std::int64_t gap = of_all ? seen.longest_gap : seen.longest_values_gap;
  return ExitEvent::Rested{.since_step = steps_in(costs.full_cycles, costs, costs.steps),
                           .cost_ratio = seen.hooks_ms / seen.wall_ms,
                           .budget_ratio = options_.settings.overhead / 100,
                           .latency_steps = steps_in(gap + 1, costs, costs.steps),
                           .values_alone = !of_all};
}

std::vector<SuppressionRecord> Worker::suppressions() const {
  std::vector<SuppressionRecord> records = suppressions_.records();
  if (records.size() > kToldSuppressions) records.resize(kToldSuppressions);
  return records;
}

void Worker::write_reports(const SummaryRecord& summary) {
  if (writer_ == nullptr) return;
  const bool is_alone = options_.run.world_size == 1;
  const bool prints = prints_live() && !options_.launched;  // the launcher prints it
  if (!is_alone && !prints) return;
  const std::string folder = parent_folder(writer_->path());
  const MergedReport report = own_report(summary, folder);
  RenderOptions render{.colour = isatty(STDERR_FILENO) != 0};
  if (is_alone && !writer_->failed()) {
    const std::string path = folder + "/report.html";
    const std::string error = write_file_atomically(path, render_html(report, {}));
    if (error.empty()) files_.push_back(path);
    if (error.empty()) render.report_path = shown_path(path);
    if (!error.empty()) log_error(error);
  }
  if (!prints) return;
  const bool brief = options_.settings.console == Console::kBrief;
  std::string text = brief ? render_last_line(report, render) : render_verdict(report, render);
  if (!is_alone) {
    text.insert(0, "rank " + std::to_string(options_.run.rank) + " of " +
                       std::to_string(options_.run.world_size) +
                       " alone; all ranks: ddpscope merge " + shown_path(folder) + "\n");
  }
  std::fputs(text.c_str(), stderr);
}

/// Of this rank alone.
MergedReport Worker::own_report(const SummaryRecord& summary, const std::string& folder) {
  RankFile file{.path = writer_->path(), .run = options_.run, .models = {}};
  for (const Model& model : models_) file.models.push_back(model.record);
  file.findings = all_findings();
  for (Finding& finding : file.findings) {
    if (finding.ranks.empty()) finding.ranks = {options_.run.rank};
    suppressions_.decide(finding);
  }
  file.suppressions = suppressions();
  file.summary = summary;
  file.run.rank = 0;
  file.run.world_size = 1;  // so that no rank is missing
  const MergeOptions options{.dir_name = folder,
                             .tool_version = options_.run.tool_version,
                             .judged_at_merge = blocked_over_ranks(options_.run)};
  std::vector<RankFile> files;
  files.push_back(std::move(file));
  return merge(std::move(files), {}, options);
}

void Worker::write_metrics(bool has_ended) {
  if (metrics_.path().empty()) return;
  RunMetrics metrics{.run = options_.run,
                     .steps = last_step_,
                     .events_dropped = queue_.dropped(),
                     .unix_ns = unix_ns(),
                     .has_ended = has_ended};
  if (last_cycle_.wall_ms > 0) {
    metrics.step_seconds = last_cycle_.wall_ms / 1e3;
    metrics.overhead_seconds = last_cycle_.overhead_us / 1e6;
  }
  for (const Finding& finding : all_findings()) {
    if (suppressions_.find(finding) != nullptr) {
      ++metrics.suppressed;
      continue;
    }
    const bool is_error = finding.severity == Severity::kError;
    const bool is_note = finding.severity == Severity::kNote;
    ++(is_error ? metrics.errors : is_note ? metrics.notes : metrics.warnings)[finding.id];
  }
  const std::string problem = metrics_.write(metrics);
  if (!problem.empty()) log_warning(problem + "; training continues without it");
}

Findings Worker::findings() {
  const std::lock_guard lock(mutex_);
  Findings result = all_findings();
  for (Finding& finding : result) {
    suppressions_.decide(finding);
  }
  return result;
}

std::array<std::int64_t, 3> Worker::counts() {
  std::array<std::int64_t, 3> counts{};
  for (const Finding& finding : findings()) {
    if (!finding.suppressed) ++counts[static_cast<std::size_t>(finding.severity)];
  }
  return counts;
}

std::vector<std::string> Worker::files() {
  const std::lock_guard lock(mutex_);
  write_models();
  if (writer_ != nullptr) writer_->sync();
  return files_;
}

std::string Worker::first_line_of_worst() {
  const std::lock_guard lock(mutex_);
  return worst_line_;
}

}  // namespace ddpscope
