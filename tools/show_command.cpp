#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "config/glob.h"
#include "records/record_json.h"
#include "report/report_writer.h"
#include "stacks/symbol_folder.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/report_input.h"
#include "tools/report_output.h"

namespace ddpscope {
namespace {
struct ShowArguments {
  std::string path;
  std::string id = "*";
  std::int64_t rank = -1;
  bool json = false;
  std::string format = "text";
  std::string symbols;
  std::string fail_on = "error";
  std::string suppressions;
};

bool is_wanted(const Finding& finding, const ShowArguments& options) {
  if (!glob_match(options.id, finding.id)) return false;
  return options.rank < 0 || finding.rank == options.rank ||
         std::ranges::find(finding.ranks, options.rank) != finding.ranks.end();
}

std::string as_json(const Findings& findings) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& finding : findings) list.push_back(to_json(finding));
  return list.dump(2, ' ', /*ensure_ascii=*/true) + '\n';  // a terminal may read it
}

std::string as_text(const MergedReport& report) {
  std::string text;
  const FindingStyle style{.colour = prints_to_terminal(), .with_model = report.models.size() > 1};
  for (const auto& finding : report.findings) text += render_finding(finding, style);
  text += render_remarks(report) + render_leftovers(report);
  return text + render_last_line(report, {.colour = style.colour});
}

std::string rendered(const MergedReport& report, const ShowArguments& options) {
  if (options.json || options.format == "json") return as_json(report.findings);
  return options.format == "github" ? render_github(report, {}) : as_text(report);
}

/// Says so where the run had no such rank, or nothing of it arrived.
void look_for(std::int64_t rank, const MergedReport& report) {
  const auto has_number = [rank](const RankState& state) { return state.run.rank == rank; };
  if (rank < 0 || std::ranges::any_of(report.ranks, has_number)) return;
  say(rank < report.world_size
          ? fmt::format("--rank: nothing of rank {} is in this report", rank)
          : fmt::format("--rank: there is no rank {}: the run had {}", rank,
                        report.world_size == 1 ? "rank 0 alone"
                                               : fmt::format("ranks 0-{}", report.world_size - 1)));
}

/// Files of the folder alone: a report may name any path.
void name_frames(Findings& findings, const std::string& folder) {
  constexpr std::chrono::seconds kBudget{60};
  SymbolFolder symbols(folder);
  const auto deadline = std::chrono::steady_clock::now() + kBudget;
  for (Finding& finding : findings) {
    for (Site& site : finding.sites) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) {
        say(fmt::format("--symbols: not all frames were looked for within {} s", kBudget.count()));
        return;
      }
      symbols.name(&site, left);
    }
  }
}

int show(const ShowArguments& options) {
  const auto fail_on = severity_of(options.fail_on);
  auto judged = read_report_at(options.path, options.suppressions);
  require_files(judged, options.path);
  look_for(options.rank, judged.report);
  std::erase_if(judged.report.findings,
                [&options](const Finding& finding) { return !is_wanted(finding, options); });
  judge_again(judged.report);
  if (!options.symbols.empty()) name_frames(judged.report.findings, options.symbols);
  print(rendered(judged.report, options));
  return judged_exit_code(judged, fail_on);
}
}  // namespace

CommandAction make_show_command(CLI::App& app) {
  const auto options = std::make_shared<ShowArguments>();
  app.add_option("PATH", options->path, "A report folder, one rank-<r>.jsonl or a report.json")
      ->required();
  app.add_option("--id", options->id, "Only findings whose id matches this glob");
  app.add_option("--rank", options->rank, "Only findings of this rank")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  app.add_flag("--json", options->json, "Print a JSON list");
  app.add_option("--format", options->format,
                 "text, json, or github: annotations of GitHub Actions at the lines concerned")
      ->check(CLI::IsMember({"text", "json", "github"}));
  app.add_option("--symbols", options->symbols,
                 "Name frames without a line with programs, libraries and .debug files of this "
                 "folder; a file counts if its build id is the frame's")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  app.add_option("--fail-on", options->fail_on,
                 "Least severity that makes the exit code 1: error, warning or note");
  app.add_option("--suppressions", options->suppressions,
                 "Suppressions file; the one of the run is named by its setting and not opened")
      ->type_name("FILE");
  return [options](const CommandContext&) { return show(*options); };
}

}  // namespace ddpscope
