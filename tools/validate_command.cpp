#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "records/jsonl_reader.h"
#include "records/launch_file.h"
#include "records/regular_file.h"
#include "records/report_dir.h"
#include "records/schema_check.h"
#include "report/escape.h"
#include "report/report_reader.h"
#include "report/report_writer.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/report_input.h"

namespace ddpscope {
namespace {
/// What the other commands refuse beside the form of records, as a rank that is not of the run.
void add_refusal(const std::string& path, const std::string& text, SchemaReport& report) {
  std::optional<ReadProblem> refusal;
  if (report.kind == "report") {
    const auto read = read_report_text(path, text);
    if (const auto* problem = std::get_if<ReadProblem>(&read)) refusal = *problem;
  } else if (report.kind == "rank file") {
    const auto read = read_rank_file(path);
    if (const auto* problem = std::get_if<ReadProblem>(&read)) refusal = *problem;
  }
  if (!refusal.has_value()) return;
  report.problems = {*std::move(refusal)};
  report.problem_count = 1;
}

SchemaReport check_file(const std::string& path) {
  std::string text;
  std::string why = read_regular(path, kMaxReportBytes, text);
  if (why.empty() && text.size() > kMaxReportBytes) why = "the file is longer than 1 GiB";
  if (why.empty()) {
    SchemaReport report = check_schema(path, text);
    if (report.problem_count == 0) add_refusal(path, text, report);
    return report;
  }
  return {.kind = "file", .problems = {{.path = path, .text = why}}, .problem_count = 1};
}

/// Whether the file is as the schema has it.
bool validate(const std::string& path) {
  const SchemaReport report = check_file(path);
  for (const ReadProblem& problem : report.problems) print(describe(problem) + "\n");
  const auto left_out = report.problem_count - std::ssize(report.problems);
  if (left_out > 0) print(fmt::format("{}: {} more\n", escape_terminal(path), left_out));
  if (report.problem_count > 0) return false;
  const auto count = report.records == 1 ? "" : fmt::format(" of {} records", report.records);
  const auto note = report.note.empty() ? "" : "; " + report.note;
  print(fmt::format("{}: valid {}{}{}\n", escape_terminal(path), report.kind, count, note));
  return true;
}
/// Whether all files in the folder that `validate` knows are; false where it holds none.
bool validate_folder(const std::string& path) {
  const auto list = list_rank_files(path);
  for (const ReadProblem& problem : list.refused) print(describe(problem) + "\n");
  bool all_valid = list.refused.empty();
  for (const RankFileName& file : list.files) all_valid = validate(file.path) && all_valid;
  bool is_empty = list.files.empty();
  for (const std::string name : {kLaunchFileName, "report.json"}) {
    const std::string file = std::filesystem::path(path) / name;
    std::error_code error;
    if (!std::filesystem::exists(std::filesystem::symlink_status(file, error))) continue;
    all_valid = validate(file) && all_valid;
    is_empty = false;
  }
  if (is_empty) print(fmt::format("{}: no record of a run lies here\n", escape_terminal(path)));
  return all_valid && !is_empty;
}

bool validate_at(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? validate_folder(path) : validate(path);
}
}  // namespace

CommandAction make_validate_command(CLI::App& app) {
  const auto files = std::make_shared<std::vector<std::string>>();
  app.add_option("FILE", *files,
                 "rank-<r>.jsonl, launch.json or report.json; a folder stands for those in it")
      ->required();
  app.footer("Returns 3 where a file does not fit the schema or is of a newer one.");
  return [files](const CommandContext&) {
    bool all_valid = true;
    for (const auto& file : *files) all_valid = validate_at(file) && all_valid;
    return static_cast<int>(all_valid ? ExitStatus::kClean : ExitStatus::kInput);
  };
}

}  // namespace ddpscope
