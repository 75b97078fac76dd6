#pragma once

#include <vector>

namespace digits {

/// A point of a glyph; both coordinates lie in 0..1, y points down.
struct Point {
  double x = 0;
  double y = 0;
};
using Stroke = std::vector<Point>;

/// The strokes of a digit, each a chain of short lines.
std::vector<Stroke> glyph(int digit);

}  // namespace digits
