#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/statistics.h"
#include "report/escape.h"
#include "report/html_sections.h"
#include "report/wording.h"

// The strip of ranks over steps: how long each step took, and where findings lie.
namespace ddpscope::html {
namespace {
constexpr std::size_t kMaxRows = 48;
constexpr std::size_t kMaxColumns = 80;
constexpr std::size_t kSlowestShown = 10;
constexpr double kGutter = 76;
constexpr double kWidth = 924;
constexpr double kRowHeight = 14;

/// Steps that took at least so many times the median.
constexpr std::array<double, 4> kLevels = {0, 1.25, 2, 4};

struct RankSteps {
  std::int64_t rank = 0;
  double median_ms = 0;
  double longest_ms = 0;
  std::int64_t longest_step = 0;
};

struct Grid {
  std::vector<std::int64_t> steps;  ///< that were sampled anywhere
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> longest_ms;  ///< by row and column; 0: not sampled
  std::vector<int> worst;          ///< severity of the findings there; -1: none
  double median_ms = 0;

  std::size_t row_of(std::size_t index, std::size_t ranks) const { return index * rows / ranks; }
  std::size_t column_of(std::int64_t step) const {
    const auto at = std::ranges::lower_bound(steps, step);
    const auto index = std::min<std::size_t>(at - steps.begin(), steps.size() - 1);
    return index * columns / steps.size();
  }
};

bool is_measured(const StepRecord& step) { return std::isfinite(step.wall_ms) && step.wall_ms > 0; }

std::vector<std::int64_t> sampled_steps(const MergedReport& report) {
  std::vector<std::int64_t> steps;
  for (const auto& rank : report.ranks) {
    for (const auto& step : rank.sampled_steps) {
      if (is_measured(step)) steps.push_back(step.step);
    }
  }
  std::ranges::sort(steps);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::int64_t rank_number(const RankState& state) { return state.run.rank; }

void add_findings(const MergedReport& report, Grid& grid) {
  for (const Finding& finding : report.findings) {
    if (finding.suppressed || finding.step <= 0) continue;
    const auto rank = std::ranges::lower_bound(report.ranks, finding.rank, {}, rank_number);
    if (rank == report.ranks.end() || rank->run.rank != finding.rank) continue;
    const auto row = grid.row_of(rank - report.ranks.begin(), report.ranks.size());
    int& worst = grid.worst[row * grid.columns + grid.column_of(finding.step)];
    worst = std::max(worst, static_cast<int>(finding.severity));
  }
}

Grid grid_of(const MergedReport& report) {
  Grid grid{.steps = sampled_steps(report)};
  if (grid.steps.empty()) return grid;
  grid.rows = std::min(kMaxRows, report.ranks.size());
  grid.columns = std::min(kMaxColumns, grid.steps.size());
  grid.longest_ms.resize(grid.rows * grid.columns);
  grid.worst.resize(grid.rows * grid.columns, -1);
  std::vector<double> all;
  for (std::size_t i = 0; i < report.ranks.size(); ++i) {
    const std::size_t row = grid.row_of(i, report.ranks.size());
    for (const auto& step : report.ranks[i].sampled_steps) {
      if (!is_measured(step)) continue;
      double& cell = grid.longest_ms[row * grid.columns + grid.column_of(step.step)];
      cell = std::max(cell, step.wall_ms);
      all.push_back(step.wall_ms);
    }
  }
  grid.median_ms = median(std::move(all));
  add_findings(report, grid);
  return grid;
}

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};
std::string path_of(const Box& box) {
  return fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", box.x, box.y, box.width, box.height,
                     box.width);
}

std::string cells_svg(const Grid& grid) {
  std::array<std::string, kLevels.size()> levels;
  std::array<std::string, 3> marks;
  const double width = kWidth / static_cast<double>(grid.columns);
  for (std::size_t i = 0; i < grid.longest_ms.size(); ++i) {
    const double x = kGutter + static_cast<double>(i % grid.columns) * width;
    const std::size_t row = i / grid.columns;
    const double y = static_cast<double>(row) * kRowHeight;
    if (grid.longest_ms[i] > 0) {
      std::size_t level = kLevels.size() - 1;
      while (level > 0 && grid.longest_ms[i] < kLevels[level] * grid.median_ms) --level;
      levels[level] += path_of({x, y, std::max(width - 1, 1.0), kRowHeight - 1});
    }
    if (grid.worst[i] < 0) continue;
    const double side = std::min(width - 3, 5.0);
    marks[grid.worst[i]] += path_of({x + (width - 1 - side) / 2, y + 4, side, 5});
  }
  std::string svg;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    svg += fmt::format("<path class=\"l{}\" d=\"{}\"/>\n", level, levels[level]);
  }
  for (std::size_t severity = 0; severity < marks.size(); ++severity) {
    svg += fmt::format("<path class=\"m{}\" d=\"{}\"/>\n", severity, marks[severity]);
  }
  return svg;
}

std::string labels_svg(const Grid& grid, const MergedReport& report) {
  std::string svg;
  const std::size_t every = (grid.rows + 15) / 16;
  for (std::size_t row = 0; row < grid.rows; row += every) {
    const std::size_t ranks = report.ranks.size();
    const std::size_t first = (row * ranks + grid.rows - 1) / grid.rows;
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">rank {}</text>\n", kGutter - 8,
                       static_cast<double>(row) * kRowHeight + 11, report.ranks[first].run.rank);
  }
  const double below = static_cast<double>(grid.rows) * kRowHeight + 14;
  svg +=
      fmt::format("<text x=\"{}\" y=\"{}\">step {}</text>\n", kGutter, below, grid.steps.front());
  return svg + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">step {}</text>\n",
                           kGutter + kWidth, below, grid.steps.back());
}

std::string legend(const Grid& grid) {
  return fmt::format(
      "<p class=\"small soft legend\">Longest step, against the median of {:.3g} ms: "
      "<span class=\"key l0\"></span> less than {} times <span class=\"key l1\"></span> from {} "
      "<span class=\"key l2\"></span> from {} <span class=\"key l3\"></span> from {} times. "
      "Findings: "
      "<span class=\"key m2\"></span> error <span class=\"key m1\"></span> warning "
      "<span class=\"key m0\"></span> note</p>\n",
      grid.median_ms, kLevels[1], kLevels[1], kLevels[2], kLevels[3]);
}

std::vector<RankSteps> slowest_first(const MergedReport& report) {
  std::vector<RankSteps> ranks;
  for (const auto& rank : report.ranks) {
    RankSteps own{.rank = rank.run.rank};
    std::vector<double> times;
    for (const auto& step : rank.sampled_steps) {
      if (!is_measured(step)) continue;
      times.push_back(step.wall_ms);
      if (step.wall_ms <= own.longest_ms) continue;
      own.longest_ms = step.wall_ms;
      own.longest_step = step.step;
    }
    if (times.empty()) continue;
    own.median_ms = median(std::move(times));
    ranks.push_back(own);
  }
  std::ranges::stable_sort(ranks, std::ranges::greater(), &RankSteps::median_ms);
  return ranks;
}

std::string slowest_table(const MergedReport& report) {
  const auto ranks = slowest_first(report);
  std::string rows;
  for (std::size_t i = 0; i < std::min(ranks.size(), kSlowestShown); ++i) {
    rows +=
        fmt::format("<tr><td>{}</td><td>{:.4g} ms</td><td>{:.4g} ms</td><td>{}</td></tr>\n",
                    ranks[i].rank, ranks[i].median_ms, ranks[i].longest_ms, ranks[i].longest_step);
  }
  return fmt::format(
      "<details><summary>Ranks by step time: the slowest {} of {}</summary><div class=\"scroll\">"
      "<table><thead><tr><th scope=\"col\">Rank</th><th scope=\"col\">Median step</th>"
      "<th scope=\"col\">Longest step</th><th scope=\"col\">At step</th></tr></thead><tbody>\n{}"
      "</tbody></table></div></details>\n",
      std::min(ranks.size(), kSlowestShown), ranks.size(), rows);
}
}  // namespace

std::string steps(const MergedReport& report) {
  const Grid grid = grid_of(report);
  if (grid.steps.empty()) return {};
  const std::string label =
      fmt::format("Step times of {} ranks over steps {} to {}; the table below tells the slowest",
                  report.ranks.size(), grid.steps.front(), grid.steps.back());
  return fmt::format(
      "<section aria-labelledby=\"steps\">\n<h2 id=\"steps\">Ranks over steps</h2>\n"
      "<div class=\"card\">\n<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\">\n{}{}"
      "</svg>\n{}{}</div>\n</section>\n",
      label, kGutter + kWidth, static_cast<double>(grid.rows) * kRowHeight + 20, cells_svg(grid),
      labels_svg(grid, report), legend(grid), slowest_table(report));
}

}  // namespace ddpscope::html
