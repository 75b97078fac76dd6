// Draws a data set of digits: ddpscope_draw_digits OUT_DIR [--count N] [--seed S]
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <numbers>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "samples/digits/glyphs.h"
#include "samples/digits/idx_file.h"

namespace digits {
namespace {

constexpr int kSide = 28;

struct Arguments {
  std::string folder;
  std::uint32_t count = 4000;
  std::uint32_t seed = 1;
};

// std::mt19937 gives the same numbers everywhere, the standard distributions do not.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  double between(double low, double high) { return low + (high - low) * engine_() / 4294967296.0; }
  double bell() { return between(-1, 1) + between(-1, 1) + between(-1, 1); }

 private:
  std::mt19937 engine_;
};

struct Affine {
  double a = 1, b = 0, c = 0, d = 1, shift_x = 0, shift_y = 0;
  Point operator()(Point p) const {
    const double x = p.x - 0.5;
    const double y = p.y - 0.5;
    return {0.5 + a * x + b * y + shift_x, 0.5 + c * x + d * y + shift_y};
  }
};

Affine random_affine(Random& random) {
  const double angle = random.between(-12, 12) * std::numbers::pi / 180;
  const double shear = random.between(-0.2, 0.2);
  const double width = random.between(0.7, 0.95);
  const double height = random.between(0.7, 0.95);
  return {.a = width * std::cos(angle),
          .b = height * (shear * std::cos(angle) - std::sin(angle)),
          .c = width * std::sin(angle),
          .d = height * (shear * std::sin(angle) + std::cos(angle)),
          .shift_x = random.between(-0.07, 0.07),
          .shift_y = random.between(-0.07, 0.07)};
}

double distance_to_line(Point p, Point from, Point to) {
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  const double length_squared = dx * dx + dy * dy;
  const double along = ((p.x - from.x) * dx + (p.y - from.y) * dy) / length_squared;
  const double t = std::clamp(along, 0.0, 1.0);
  return std::hypot(p.x - from.x - t * dx, p.y - from.y - t * dy);
}

double distance_to_strokes(Point p, const std::vector<Stroke>& strokes) {
  double least = 2;
  for (const Stroke& stroke : strokes) {
    for (std::size_t i = 1; i < stroke.size(); ++i) {
      least = std::min(least, distance_to_line(p, stroke[i - 1], stroke[i]));
    }
  }
  return least;
}

void draw(int digit, Random& random, std::vector<std::uint8_t>& pixels) {
  const Affine affine = random_affine(random);
  std::vector<Stroke> strokes = glyph(digit);
  for (Stroke& stroke : strokes)
    std::transform(stroke.begin(), stroke.end(), stroke.begin(), affine);
  const double half_width = random.between(0.025, 0.055);
  const double ink = random.between(0.75, 1.0);
  constexpr double kSoftEdge = 1.2 / kSide;
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      const Point center = {(column + 0.5) / kSide, (row + 0.5) / kSide};
      const double outside = distance_to_strokes(center, strokes) - half_width;
      const double cover = std::clamp(1 - outside / kSoftEdge, 0.0, 1.0);
      const double grey = 255 * (ink * cover + 0.04 * random.bell());
      pixels.push_back(static_cast<std::uint8_t>(std::clamp(grey, 0.0, 255.0)));
    }
  }
}

std::uint32_t number(std::string_view name, std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::runtime_error(std::string(name) + " takes a whole number, not \"" +
                             std::string(text) + "\"");
  }
  return value;
}

Arguments parse(const std::vector<std::string_view>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--count" && has_value) {
      arguments.count = number("--count", words[++i]);
    } else if (words[i] == "--seed" && has_value) {
      arguments.seed = number("--seed", words[++i]);
    } else if (!words[i].starts_with("-") && arguments.folder.empty()) {
      arguments.folder = words[i];
    } else {
      throw std::runtime_error("cannot use the argument \"" + std::string(words[i]) + "\"");
    }
  }
  if (arguments.folder.empty() || arguments.count == 0 || arguments.count > 1000000) {
    throw std::runtime_error("usage: ddpscope_draw_digits OUT_DIR [--count 1..1000000] [--seed S]");
  }
  return arguments;
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) try {
  const auto arguments = digits::parse({argv + 1, argv + argc});
  digits::Random random(arguments.seed);
  digits::ImageSet set;
  set.rows = set.columns = digits::kSide;
  for (std::uint32_t i = 0; i < arguments.count; ++i) {
    const int digit = static_cast<int>(random.between(0, 10));
    digits::draw(digit, random, set.pixels);
    set.labels.push_back(static_cast<std::uint8_t>(digit));
  }
  digits::write_image_set(arguments.folder, set);
  std::cout << arguments.count << " images of " << digits::kSide << " x " << digits::kSide
            << " pixels in " << arguments.folder << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "ddpscope_draw_digits: " << error.what() << "\n";
  return 2;
}
