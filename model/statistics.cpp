#include "model/statistics.h"

#include <algorithm>
#include <cstddef>

namespace ddpscope {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double quantile(std::vector<double> values, double share) {
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(last * share);
  std::ranges::nth_element(values, at);
  return *at;
}

Trend trend_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0, sum_yy = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<double>(i);
    const double y = values[i] - values.front();  // small numbers lose no digits
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
    sum_yy += y * y;
  }
  const double xx = n * sum_xx - sum_x * sum_x;
  const double xy = n * sum_xy - sum_x * sum_y;
  const double yy = n * sum_yy - sum_y * sum_y;
  if (xx <= 0 || yy <= 0) return {};
  return {.slope = xy / xx, .fit = xy * xy / (xx * yy)};
}

}  // namespace ddpscope
