#pragma once

#include <vector>

namespace ddpscope {

/// The upper one of two middle values; 0 of none.
double median(std::vector<double> values);

/// The element below which this share of the values lies; `values` is not empty.
double quantile(std::vector<double> values, double share);

/// A line through `values`, one for each place 0, 1, 2 and so on.
struct Trend {
  double slope = 0;
  double fit = 0;  ///< r²: 1 where all values lie on the line, 0 where they are all equal
};
Trend trend_of(const std::vector<double>& values);

}  // namespace ddpscope
