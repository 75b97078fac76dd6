#include "report/html_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "records/words.h"
#include "report/escape.h"
#include "report/wording.h"

namespace ddpscope::html {
namespace {

constexpr std::size_t kMaxRankRows = 2000;
constexpr std::size_t kFoldedFrom = 64;

std::string section(std::string_view id, std::string_view title, const std::string& body) {
  if (body.empty()) return {};
  return fmt::format(
      "<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n<div "
      "class=\"card\">\n{2}</div>\n"
      "</section>\n",
      id, title, body);
}

std::string table(const std::vector<std::string_view>& columns, const std::string& rows) {
  std::string head;
  for (const auto column : columns) head += fmt::format("<th scope=\"col\">{}</th>", column);
  return fmt::format(
      "<div class=\"scroll\"><table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
      head, rows);
}

std::string row(const std::vector<std::string>& cells) {
  std::string html = "<tr>";
  for (const auto& cell : cells) html += "<td>" + escape_html(cell) + "</td>";
  return html + "</tr>\n";
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string items;
  for (const auto& line : lines) items += "<li>" + escape_html(line) + "</li>\n";
  return items.empty() ? items : "<ul>\n" + items + "</ul>\n";
}

std::string tile(const std::string& number, std::string_view text, bool falls_short = false) {
  return fmt::format("<li{}><b>{}</b><span>{}</span></li>\n", falls_short ? " class=\"short\"" : "",
                     escape_html(number), text);
}

/// One state of the coverage, by check; ids and reasons stand in the rows.
std::string coverage_group(const MergedReport& report, CoverageState state, std::string_view word) {
  std::string rows;
  std::int64_t count = 0;
  for (const auto& [id, coverage] : report.coverage) {
    if (coverage.state != state) continue;
    rows += row({id, coverage.ranks.empty() ? "" : rank_words(coverage.ranks), coverage.why});
    ++count;
  }
  if (rows.empty()) return rows;
  return fmt::format(
      "<details{}><summary><span class=\"badge {}\">{} {}</span></summary>\n{}</details>\n",
      state == CoverageState::kPassed ? "" : " open", word, count, word,
      table({"Check", "Ranks", "Why"}, rows));
}

std::string state_words(const RankState& rank) {
  std::string words = rank.has_summary ? (rank.clean_exit ? "clean exit" : "ended early")
                                       : "ended without a summary";
  if (rank.truncated) words += ", last line incomplete";
  if (rank.events_dropped > 0) words += fmt::format(", {} events dropped", rank.events_dropped);
  for (const auto& progress : rank.progress) {
    words += fmt::format("; {} at step {}: {}", progress.reason, progress.step, progress.what);
  }
  return words;
}

}  // namespace

std::string verdict(const MergedReport& report) {
  const Finding* primary = primary_finding(report);
  if (primary == nullptr) {
    std::string lead = fmt::format("{} checks ran and passed.", count_coverage(report).run);
    if (report.suppressed > 0) {
      lead += fmt::format(" {} suppressed.", counted(report.suppressed, "finding"));
    }
    return fmt::format(
        "<div class=\"verdict {}\"><p class=\"head\">{}</p><p class=\"lead\">{}</p></div>\n",
        report.ranks.empty() ? "warning" : "good",
        report.ranks.empty()     ? "Nothing was recorded"
        : report.suppressed == 0 ? "No findings"
                                 : "No findings that count",
        report.ranks.empty() ? "No rank file could be read." : lead);
  }
  std::string place = place_of(*primary, report.models.size() > 1);
  if (!place.empty()) place = fmt::format(" in <code>{}</code>", escape_html(place));
  const auto fixes = fixes_in_order(*primary);
  std::string next = fixes.empty() ? "" : fmt::format("{}. ", escape_html(fixes.front().text));
  next += fmt::format("<a href=\"#f1\">Evidence</a>, <code>ddpscope explain {}</code>",
                      escape_html(primary->id));
  return fmt::format(
      "<div class=\"verdict {}\"><p class=\"head\">{}{}</p><p class=\"lead\">{}</p>{}<p "
      "class=\"next\"><b>Next:</b> {}</p><p class=\"soft small\">{}</p></div>\n",
      word(primary->severity), escape_html(primary->id), place, escape_html(primary->what),
      primary->why.empty() ? "" : fmt::format("<p><b>Why:</b> {}</p>", escape_html(primary->why)),
      next, count_words(report));
}

std::string contents(const MergedReport& report) {
  if (report.ranks.empty()) return {};
  std::string links;
  const auto add = [&links](std::string_view id, std::string_view title, bool is_there) {
    if (is_there) links += fmt::format("<a href=\"#{}\">{}</a>\n", id, title);
  };
  const auto has_steps = [](const RankState& rank) { return !rank.sampled_steps.empty(); };
  add("steps", "Ranks over steps", std::ranges::any_of(report.ranks, has_steps));
  add("findings", "Findings", !report.findings.empty());
  add("curves", "Curves", !curves(report).empty());
  add("coverage", "What was checked", !report.coverage.empty());
  add("ranks", "Ranks", true);
  add("models", "Models", !report.models.empty());
  add("input", "About the input", !report.remarks.empty() || !report.skipped_files.empty());
  return "<nav aria-label=\"Sections\">\n" + links + "</nav>\n";
}

std::string tiles(const MergedReport& report) {
  const CoverageCounts counts = count_coverage(report);
  const auto present = static_cast<std::int64_t>(report.ranks.size());
  std::string html = tile(fmt::format("{} / {}", present, report.world_size), "ranks compared",
                          !report.missing_ranks.empty());
  html += tile(fmt::format("{}", counts.passed), "checks passed");
  html += tile(fmt::format("{}", counts.failed), "checks failed");
  html += tile(fmt::format("{}", counts.blocked), "checks blocked");
  std::int64_t steps = 0;
  for (const auto& rank : report.ranks) steps = std::max(steps, rank.steps);
  if (steps > 0) html += tile(fmt::format("{}", steps), "steps seen");
  if (report.overhead.percent) {
    html += tile(fmt::format("{:.1f} %", *report.overhead.percent), "of step time for checking");
  }
  return "<ul class=\"tiles\">\n" + html + "</ul>\n";
}

std::string coverage(const MergedReport& report) {
  return section("coverage", "What was checked",
                 coverage_group(report, CoverageState::kFailed, "failed") +
                     coverage_group(report, CoverageState::kBlocked, "blocked") +
                     coverage_group(report, CoverageState::kPassed, "passed"));
}

std::string ranks(const MergedReport& report) {
  std::string rows;
  const std::size_t shown = std::min(report.ranks.size(), kMaxRankRows);
  for (const auto& rank : std::span(report.ranks).first(shown)) {
    rows +=
        row({fmt::format("{}", rank.run.rank), rank.run.host, rank.run.device,
             rank.has_summary ? fmt::format("{}", rank.steps) : "not recorded", state_words(rank)});
  }
  if (rows.empty()) return rows;
  if (shown < report.ranks.size()) {
    rows += fmt::format("<tr><td colspan=\"5\">{} more: report.json has them</td></tr>\n",
                        report.ranks.size() - shown);
  }
  if (!report.missing_ranks.empty()) {
    rows += fmt::format("<tr><td>{}</td><td colspan=\"4\">no record</td></tr>\n",
                        rank_ranges(report.missing_ranks));
  }
  const std::string list = table({"Rank", "Host", "Device", "Steps", "End"}, rows);
  if (report.ranks.size() <= kFoldedFrom) return section("ranks", "Ranks", list);
  return section("ranks", "Ranks",
                 fmt::format("<details><summary>All {} ranks</summary>\n{}</details>\n",
                             report.ranks.size(), list));
}

std::string models(const MergedReport& report) {
  std::string rows;
  for (const auto& model : report.models) {
    rows += row({model.name, model.class_name, fmt::format("{}", model.parameters),
                 fmt::format("{}", model.elements), fmt::format("{}", model.trainable),
                 fmt::format("{}", model.buffers), fmt::format("{}", model.modules)});
  }
  if (rows.empty()) return rows;
  return section(
      "models", "Models",
      table({"Model", "Class", "Parameters", "Elements", "Trainable", "Buffers", "Modules"}, rows) +
          module_trees(report));
}

std::string settings(const MergedReport& report) {
  if (report.ranks.empty()) return {};
  const RunRecord& run = report.ranks.front().run;
  std::string rows;
  for (const auto& [key, setting] : run.settings) {
    rows += row({key, setting.value, setting.source});
  }
  std::string body;
  if (!rows.empty()) {
    body += "<details><summary>Settings</summary>\n" + table({"Key", "Value", "From"}, rows) +
            "</details>\n";
  }
  std::string sources;
  for (const auto& [name, state] : run.sources) sources += row({name, state});
  if (!sources.empty()) {
    body += "<details><summary>Event sources</summary>\n" + table({"Source", "State"}, sources) +
            "</details>\n";
  }
  std::string command;
  for (const auto& argument : run.command) command += (command.empty() ? "" : " ") + argument;
  if (!command.empty()) body += fmt::format("<p><code>{}</code></p>\n", escape_html(command));
  return section("settings", "How it was run", body);
}

std::string leftover_suppressions(const MergedReport& report) {
  std::vector<std::string> lines;
  for (const auto& left : report.leftover_suppressions) lines.push_back(leftover_words(left));
  return section("suppressions", "Suppressions without effect", list_of(lines));
}

std::string input_remarks(const MergedReport& report) {
  std::vector<std::string> lines = report.remarks;
  for (const auto& file : report.skipped_files) {
    lines.push_back(file.path + " was skipped: " + file.why);
  }
  return section("input", "About the input", list_of(lines));
}

}  // namespace ddpscope::html
