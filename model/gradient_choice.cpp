#include "model/gradient_choice.h"

#include <algorithm>
#include <numeric>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxGradients = 16;
constexpr std::int64_t kMaxElements = 1 << 22;  // of all gradients of a step
}  // namespace

std::vector<ChosenGradient> choose_gradients(const std::vector<std::int64_t>& elements,
                                             std::int64_t step) {
  const std::size_t count = elements.size();
  std::vector<std::size_t> places;
  const auto add = [&](std::size_t place) {
    const bool is_new = std::ranges::find(places, place) == places.end();
    if (is_new && places.size() < kMaxGradients) places.push_back(place);
  };
  if (count <= kMaxGradients) {
    places.resize(count);
    std::iota(places.begin(), places.end(), std::size_t{0});
  } else {
    add(0);
    add(count - 1);
    add(static_cast<std::size_t>(std::ranges::max_element(elements) - elements.begin()));
    const auto turn = static_cast<std::size_t>(step) * (kMaxGradients - 3);
    for (std::size_t i = 0; i < kMaxGradients; ++i) add((turn + i) % count);
  }
  std::int64_t left = kMaxElements;
  std::vector<ChosenGradient> result;
  for (const std::size_t place : places) {
    const std::int64_t part = std::min(elements[place], left);
    if (part == 0) continue;
    left -= part;
    result.push_back({.index = place, .elements = part});
  }
  return result;
}

}  // namespace ddpscope
