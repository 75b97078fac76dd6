#include "tools/report_input.h"

#include <filesystem>

#include "config/glob.h"
#include "records/jsonl_reader.h"
#include "records/report_dir.h"
#include "records/words.h"
#include "report/report_writer.h"
#include "tools/command.h"
#include "tools/exit_status.h"

namespace ddpscope {
namespace {
struct Input {
  std::vector<RankFile> files;
  std::vector<SkippedFile> skipped;
  std::vector<std::string> unusable;
};

void read_into(Input& input, const std::string& path) {
  auto result = read_rank_file(path);
  if (auto* file = std::get_if<RankFile>(&result)) {
    input.files.push_back(std::move(*file));
    return;
  }
  const auto& problem = std::get<ReadProblem>(result);
  input.skipped.push_back({path, problem.text});
  input.unusable.push_back(describe(problem));
}

void read_folder(Input& input, const std::string& dir) {
  const auto list = list_rank_files(dir);
  if (!list.error.empty()) throw CommandError(ExitStatus::kInput, list.error);
  for (const auto& why : list.skipped) input.skipped.push_back({dir, why});
  for (const auto& file : list.files) read_into(input, file.path);
}

/// The checks that the user spelled out in the setting `checks`.
std::vector<std::string> named_checks(const MergedReport& report) {
  std::vector<std::string> names;
  for (const auto& rank : report.ranks) {
    const auto setting = rank.run.settings.find("checks");
    if (setting == rank.run.settings.end()) continue;
    for (const auto& [id, why] : rank.run.blocked) {
      if (named_without_glob(setting->second.value, id)) names.push_back(id);
    }
  }
  return names;
}
}  // namespace

JudgedReport read_reports(const std::vector<std::string>& paths) {
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
  judged.files = input.files.size();
  judged.unusable = std::move(input.unusable);
  if (judged.files == 0) return judged;
  judged.report = merge(std::move(input.files), std::move(input.skipped),
                        {.dir_name = paths.front(), .tool_version = DDPSCOPE_TOOL_VERSION});
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
