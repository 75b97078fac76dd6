#include "samples/digits/glyphs.h"

#include <cmath>
#include <numbers>

namespace digits {
namespace {

struct Arc {
  Point center;
  double radius_x = 0;
  double radius_y = 0;
  double begin_degrees = 0;
  double end_degrees = 0;
};

Stroke curve(const Arc& arc) {
  constexpr int kLines = 14;
  Stroke stroke;
  for (int i = 0; i <= kLines; ++i) {
    const double degrees =
        arc.begin_degrees + (arc.end_degrees - arc.begin_degrees) * i / double{kLines};
    const double angle = degrees * std::numbers::pi / 180;
    stroke.push_back({arc.center.x + arc.radius_x * std::cos(angle),
                      arc.center.y + arc.radius_y * std::sin(angle)});
  }
  return stroke;
}

}  // namespace

// Angles run clockwise from the right, because y points down.
std::vector<Stroke> glyph(int digit) {
  switch (digit) {
    case 0:
      return {curve({{0.5, 0.5}, 0.25, 0.4, 0, 360})};
    case 1:
      return {{{0.35, 0.25}, {0.52, 0.1}, {0.52, 0.9}}};
    case 2:
      return {curve({{0.5, 0.32}, 0.24, 0.22, 180, 395}), {{0.7, 0.45}, {0.25, 0.9}, {0.77, 0.9}}};
    case 3:
      return {curve({{0.47, 0.3}, 0.24, 0.2, 200, 450}), curve({{0.47, 0.7}, 0.27, 0.2, 270, 520})};
    case 4:
      return {{{0.6, 0.1}, {0.22, 0.62}, {0.8, 0.62}}, {{0.62, 0.4}, {0.62, 0.92}}};
    case 5:
      return {{{0.72, 0.1}, {0.33, 0.1}, {0.3, 0.46}}, curve({{0.47, 0.65}, 0.26, 0.25, 228, 510})};
    case 6:
      return {curve({{0.68, 0.62}, 0.42, 0.52, 180, 275}),
              curve({{0.5, 0.68}, 0.24, 0.22, 0, 360})};
    case 7:
      return {{{0.23, 0.1}, {0.77, 0.1}, {0.42, 0.92}}};
    case 8:
      return {curve({{0.5, 0.3}, 0.2, 0.2, 0, 360}), curve({{0.5, 0.7}, 0.25, 0.21, 0, 360})};
    default:
      return {curve({{0.5, 0.33}, 0.23, 0.22, 0, 360}), {{0.73, 0.33}, {0.7, 0.6}, {0.58, 0.92}}};
  }
}

}  // namespace digits
