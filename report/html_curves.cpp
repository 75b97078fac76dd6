#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "model/statistics.h"
#include "report/html_sections.h"

// Curves of what was recorded of steps: the median of the ranks, and from the least to the most.
namespace ddpscope::html {
namespace {
constexpr std::size_t kMaxPoints = 160;
constexpr double kCurveWidth = 480;
constexpr double kCurveHeight = 120;
constexpr std::size_t kOneBeyond = 50;  // of the points, at each end: they do not set the scale

struct Measure {
  std::string_view name;
  std::string_view unit;
  std::optional<double> (*of)(const StepRecord&);
};
constexpr std::array<Measure, 4> kMeasures = {{
    {"Loss", "", [](const StepRecord& step) { return step.loss; }},
    {"Norm of the gradients", "", [](const StepRecord& step) { return step.gradient_norm; }},
    {"Step time", " ms", [](const StepRecord& step) { return std::optional(step.wall_ms); }},
    {"Overhead", " % of the step",
     [](const StepRecord& step) {
       return step.wall_ms > 0 ? std::optional(step.overhead_us / (10 * step.wall_ms))
                               : std::nullopt;
     }},
}};

struct Sample {
  std::int64_t step = 0;
  double value = 0;
};
struct Point {
  double step = 0;
  double median = 0;
  double least = 0;
  double most = 0;
};

std::vector<Sample> samples_of(const MergedReport& report, const Measure& measure) {
  std::vector<Sample> samples;
  for (const RankState& rank : report.ranks) {
    for (const StepRecord& step : rank.sampled_steps) {
      const auto value = measure.of(step);
      if (value && std::isfinite(*value)) samples.push_back({.step = step.step, .value = *value});
    }
  }
  std::ranges::stable_sort(samples, {}, &Sample::step);
  return samples;
}

/// Steps that lie next to each other share a point where there are too many.
std::vector<Point> points_of(const std::vector<Sample>& samples) {
  std::vector<std::vector<Sample>> steps;
  for (const Sample& sample : samples) {
    if (steps.empty() || steps.back().front().step != sample.step) steps.emplace_back();
    steps.back().push_back(sample);
  }
  const std::size_t count = std::min(kMaxPoints, steps.size());
  std::vector<Point> points;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> values;
    const std::size_t first = i * steps.size() / count;
    for (std::size_t at = first; at < (i + 1) * steps.size() / count; ++at) {
      for (const Sample& sample : steps[at]) values.push_back(sample.value);
    }
    const auto [least, most] = std::ranges::minmax(values);
    points.push_back({.step = static_cast<double>(steps[first].front().step),
                      .median = median(std::move(values)),
                      .least = least,
                      .most = most});
  }
  return points;
}

class Scale {
 public:
  explicit Scale(const std::vector<Point>& points)
      : first_(points.front().step), last_(points.back().step) {
    std::vector<double> medians;
    for (const Point& point : points) medians.push_back(point.median);
    std::ranges::sort(medians);
    const std::size_t beyond = medians.size() / kOneBeyond;
    low_ = medians[beyond];
    high_ = medians[medians.size() - 1 - beyond];
  }

  double low() const { return low_; }
  double high() const { return high_; }
  double x(double step) const {
    return kCurveWidth * (step - first_) / std::max(last_ - first_, 1.0);
  }
  double y(double value) const {
    if (high_ <= low_) return kCurveHeight / 2;
    const double height = 1 - (std::clamp(value, low_, high_) - low_) / (high_ - low_);
    return 2 + (kCurveHeight - 4) * height;
  }

 private:
  double first_;
  double last_;
  double low_ = 0;
  double high_ = 0;
};

std::string line_of(const std::vector<Point>& points, const Scale& scale) {
  std::string path;
  for (const Point& point : points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', scale.x(point.step),
                        scale.y(point.median));
  }
  return path;
}

std::string band_of(const std::vector<Point>& points, const Scale& scale) {
  std::string path;
  for (const Point& point : points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', scale.x(point.step),
                        scale.y(point.most));
  }
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    path += fmt::format("L{:.1f} {:.1f}", scale.x(point->step), scale.y(point->least));
  }
  return path + "z";
}

std::string figure(const MergedReport& report, const Measure& measure) {
  const auto points = points_of(samples_of(report, measure));
  if (points.size() < 2) return {};
  const Scale scale(points);
  const std::string range =
      fmt::format("{:.3g} to {:.3g}{}", scale.low(), scale.high(), measure.unit);
  const std::string band =
      report.ranks.size() > 1
          ? fmt::format("<path class=\"band\" d=\"{}\"/>\n", band_of(points, scale))
          : "";
  return fmt::format(
      "<figure>\n<figcaption><b>{0}</b> <span class=\"soft\">{1}; last {2:.4g}</span>"
      "</figcaption>\n<svg role=\"img\" aria-label=\"{0} over steps {3:.0f} to {4:.0f}: {1}\" "
      "viewBox=\"0 0 {5} {6}\">\n{7}<path class=\"curve\" d=\"{8}\"/>\n"
      "<text x=\"0\" y=\"{9}\">step {3:.0f}</text>\n"
      "<text x=\"{5}\" y=\"{9}\" text-anchor=\"end\">step {4:.0f}</text>\n</svg>\n</figure>\n",
      measure.name, range, points.back().median, points.front().step, points.back().step,
      kCurveWidth, kCurveHeight + 16, band, line_of(points, scale), kCurveHeight + 14);
}
}  // namespace

std::string curves(const MergedReport& report) {
  std::string figures;
  for (const Measure& measure : kMeasures) figures += figure(report, measure);
  if (figures.empty()) return {};
  const std::string_view several =
      report.ranks.size() > 1
          ? "The line is the median of the ranks, the band reaches from the least to the most. "
          : "";
  return fmt::format(
      "<section aria-labelledby=\"curves\">\n<h2 id=\"curves\">Curves</h2>\n"
      "<div class=\"card\">\n<div class=\"curves\">\n{}</div>\n"
      "<p class=\"small soft\">{}Of the steps that were recorded. The scale leaves out 2 % of the "
      "points at each end, which lie on the edge then.</p>\n</div>\n</section>\n",
      figures, several);
}

}  // namespace ddpscope::html
