#include "tools/report_input.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "config/glob.h"
#include "exchange/ring_set.h"
#include "records/jsonl_reader.h"
#include "records/regular_file.h"
#include "records/report_dir.h"
#include "records/words.h"
#include "report/leftover_suppressions.h"
#include "report/report_reader.h"
#include "report/report_writer.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/progress_line.h"
#include "tools/rank_judgement.h"

namespace ddpscope {
namespace {
struct Input {
  std::vector<RankFile> files;
  std::vector<LaunchRecord> launches;
  std::vector<std::int64_t> cut_short;
  std::vector<SkippedFile> skipped;
  std::vector<std::string> unusable;
  std::vector<RingPlace> rings;
};

void read_into(Input& input, const std::string& path) {
  auto result = read_rank_file(path);
  if (auto* file = std::get_if<RankFile>(&result)) {
    input.files.push_back(std::move(*file));
    return;
  }
  const auto& problem = std::get<ReadProblem>(result);
  input.skipped.push_back({path, problem.text});
  const auto rank = rank_of_file_name(std::filesystem::path(path).filename().string());
  if (problem.cut_short && rank) {
    input.cut_short.push_back(*rank);
  } else {
    input.unusable.push_back(describe(problem));
  }
}

void read_launch(Input& input, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return;
  auto result = read_launch_file(path);
  if (auto* launch = std::get_if<LaunchRecord>(&result)) {
    input.launches.push_back(std::move(*launch));
    return;
  }
  const auto& problem = std::get<ReadProblem>(result);
  input.skipped.push_back({path, problem.text});
  input.unusable.push_back(describe(problem));
}

void read_folder(Input& input, const std::string& dir) {
  const auto list = list_rank_files(dir);
  if (!list.error.empty()) throw CommandError(ExitStatus::kInput, list.error);
  for (const ReadProblem& problem : list.refused) {
    input.skipped.push_back({problem.path, problem.text});
    input.unusable.push_back(describe(problem));
  }
  ProgressLine line("reading ranks");
  for (std::size_t i = 0; i < list.files.size(); ++i) {
    read_into(input, list.files[i].path);
    line.tell(i + 1, list.files.size());
  }
  std::ranges::move(list_rings(dir), std::back_inserter(input.rings));
  read_launch(input, dir + "/" + kLaunchFileName);
}

/// The checks over all ranks of one run.
void judge_run(Input& input, SuppressionList& suppressions, MergeOptions& options) {
  RunEvidence evidence{.launches = std::move(input.launches), .rings = std::move(input.rings)};
  for (RankFile& file : input.files) {
    if (file.run.run_id == options.run_id) evidence.files.push_back(&file);
  }
  judge_over_ranks(evidence, suppressions, options);
  if (evidence.files.empty()) return;
  // Ranks that read the same file did not know what a merge would find.
  std::ranges::move(suppressions.records(),
                    std::back_inserter(evidence.files.front()->suppressions));
}

MergedReport merge_input(Input&& input, const std::string& dir_name,
                         SuppressionList& suppressions) {
  std::vector<const RunRecord*> runs;
  for (const RankFile& file : input.files) runs.push_back(&file.run);
  MergeOptions options{
      .dir_name = dir_name, .run_id = newest_run_id(runs), .tool_version = DDPSCOPE_TOOL_VERSION};
  judge_run(input, suppressions, options);
  std::ranges::sort(input.cut_short);
  options.cut_short = std::move(input.cut_short);
  return merge(std::move(input.files), std::move(input.skipped), options);
}

/// The checks that the user spelled out in the setting `checks`.
std::vector<std::string> named_checks(const MergedReport& report) {
  std::vector<std::string> names;
  for (const auto& rank : report.ranks) {
    const auto setting = rank.run.settings.find("checks");
    if (setting == rank.run.settings.end()) continue;
    for (const auto& [id, coverage] : report.coverage) {
      if (named_without_glob(setting->second.value, id)) names.push_back(id);
    }
  }
  return names;
}
/// What became of the lines of `list`, besides what the report says of others.
void add_leftovers(MergedReport& report, const SuppressionList& list) {
  RankFile told;
  told.suppressions = std::move(report.leftover_suppressions);
  std::ranges::move(list.records(), std::back_inserter(told.suppressions));
  const bool all_ended = std::ranges::all_of(report.ranks, &RankState::has_summary);
  report.leftover_suppressions =
      leftover_suppressions({std::move(told)}, all_ended && report.missing_ranks.empty());
}
}  // namespace

SuppressionList read_suppression_list(const std::string& path) {
  if (path.empty()) return {};
  SuppressionFile file = read_suppressions(path);
  if (!file.problems.empty()) throw CommandError(ExitStatus::kUsage, file.problems.front());
  return {std::move(file), today_utc()};
}

JudgedReport read_reports(const std::vector<std::string>& paths, const std::string& suppressions) {
  SuppressionList list = read_suppression_list(suppressions);
  Input input;
  for (const auto& path : paths) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      read_folder(input, path);
    } else {
      read_into(input, path);
    }
  }
  JudgedReport judged;
  judged.files = input.files.size() + input.cut_short.size();
  judged.unusable = std::move(input.unusable);
  if (judged.files > 0) judged.report = merge_input(std::move(input), paths.front(), list);
  return judged;
}

JudgedReport read_report_at(const std::string& path, const std::string& suppressions) {
  std::error_code error;
  if (path.ends_with(".jsonl") || !std::filesystem::is_regular_file(path, error)) {
    return read_reports({path}, suppressions);
  }
  SuppressionList list = read_suppression_list(suppressions);
  std::string text;
  const std::string why = read_regular(path, kMaxReportBytes, text);
  if (!why.empty()) return {.unusable = {describe({.path = path, .text = why})}};
  auto result = read_report_text(path, text);
  if (const auto* problem = std::get_if<ReadProblem>(&result)) {
    return {.unusable = {describe(*problem)}};
  }
  JudgedReport judged{.report = std::get<MergedReport>(std::move(result)), .files = 1};
  for (Finding& finding : judged.report.findings) {
    list.decide_unless_suppressed(finding);
  }
  add_leftovers(judged.report, list);
  judge_again(judged.report);
  return judged;
}

void require_files(const JudgedReport& judged, const std::string& place) {
  if (judged.files == 0 && judged.unusable.empty()) {
    throw CommandError(ExitStatus::kInput, "no rank file (rank-<r>.jsonl) is in " + place);
  }
  if (judged.files == 0 && judged.unusable.size() == 1) {
    throw CommandError(ExitStatus::kInput, judged.unusable.front());
  }
  for (const auto& line : judged.unusable) say("error: " + line);
  if (judged.files == 0) {
    throw CommandError(ExitStatus::kInput, "no usable rank file is in " + place);
  }
}

int judged_exit_code(const JudgedReport& judged, Severity fail_on) {
  if (!judged.unusable.empty()) return static_cast<int>(ExitStatus::kInput);
  return exit_code(judged.report, fail_on, named_checks(judged.report));
}

Severity severity_of(const std::string& word) {
  const auto severity = from_word<Severity>(word);
  if (!severity) {
    throw CommandError(ExitStatus::kUsage,
                       "--fail-on: " + word + " is not one of error, warning, note");
  }
  return *severity;
}

}  // namespace ddpscope
