#include "checks/finding_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "checks/run_state.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxPaths = 64;
constexpr std::size_t kMaxShapes = 3;
}  // namespace

std::string number_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:g}", value);
}

std::string ms_text(double ms) {
  if (ms < 1) return fmt::format("{:.0f} us", 1000 * ms);
  return ms < 10 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.0f} ms", ms);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::int64_t elements_of(const std::vector<const TensorState*>& tensors) {
  std::int64_t elements = 0;
  for (const TensorState* tensor : tensors) elements += tensor->info.elements;
  return elements;
}

std::vector<std::string> largest_shapes(const std::vector<const TensorState*>& tensors) {
  std::vector<const TensorState*> sorted = tensors;
  std::ranges::stable_sort(sorted, [](const TensorState* a, const TensorState* b) {
    return a->info.elements > b->info.elements;
  });
  std::vector<std::string> shapes;
  for (auto at = sorted.begin(); at != sorted.end() && shapes.size() < kMaxShapes;) {
    const auto& shape = (*at)->info.shape;
    const auto other = std::find_if(
        at, sorted.end(), [&](const TensorState* tensor) { return tensor->info.shape != shape; });
    const auto times = other - at;
    shapes.push_back(times > 1 ? fmt::format("{} x{}", shape_text(shape), times)
                               : shape_text(shape));
    at = other;
  }
  return shapes;
}

std::vector<WordCount> counted_words(const std::vector<std::string>& words) {
  std::vector<WordCount> counts;
  for (const std::string& word : words) {
    const auto known = std::ranges::find(counts, word, &WordCount::word);
    if (known == counts.end()) {
      counts.push_back({.word = word, .count = 1});
    } else {
      ++known->count;
    }
  }
  std::ranges::stable_sort(counts, std::ranges::greater(), &WordCount::count);
  return counts;
}

std::vector<WordCount> module_types(const RunState& state,
                                    const std::vector<const TensorState*>& tensors) {
  std::vector<std::string> types;
  for (const TensorState* one : tensors) types.push_back(state.loose_module_type(one->info.id));
  return counted_words(types);
}

std::string users_text(const std::vector<WordCount>& types) {
  constexpr std::size_t kNamed = 3;
  const auto is_seen = [](const WordCount& type) { return !type.word.empty(); };
  if (std::ranges::none_of(types, is_seen)) return "backward reaches them";
  if (types.size() == 1) return "a live " + types.front().word + " uses them";
  std::vector<std::string> parts;
  std::int64_t others = 0;
  std::int64_t unseen = 0;
  for (const auto& [word, count] : types) {
    if (word.empty()) {
      unseen = count;
    } else if (parts.size() < kNamed) {
      parts.push_back(fmt::format("{} of {}", count, word));
    } else {
      others += count;
    }
  }
  if (others > 0) parts.push_back(fmt::format("{} of other types", others));
  if (unseen > 0) parts.push_back(fmt::format("{} of a type not seen", unseen));
  return "live modules use them (" + joined(parts) + ")";
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<FactScalar> as_fact(const std::vector<std::string>& words) {
  return {words.begin(), words.end()};
}

std::vector<std::string> paths_of(const TensorGroup& group) {
  std::vector<std::string> paths;
  for (const TensorState* tensor : group.tensors) {
    if (paths.size() < kMaxPaths) paths.push_back(tensor_path(*tensor));
  }
  std::ranges::sort(paths);
  return paths;
}

std::string named_in(const TensorGroup& group) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> names = paths_of(group);
  names.resize(std::min(names.size(), kNamed));
  const std::size_t left = group.tensors.size() - names.size();
  return joined(names) + (left > 0 ? fmt::format(" and {} more", left) : "");
}

std::string optimizer_label(const OptimizerState& optimizer) {
  if (!optimizer.name.empty()) return optimizer.name;
  return optimizer.type.empty() ? "optimizer" : optimizer.type;
}

Finding about(const TensorGroup& group) {
  Finding finding;
  finding.model = group.model_label;
  finding.module_path = group.module_path;
  finding.subject = group.subject;
  finding.facts = {
      {fact::kParameters, as_fact(paths_of(group))},
      {fact::kParametersCount, static_cast<std::int64_t>(group.tensors.size())},
      {fact::kElements, elements_of(group.tensors)},
  };
  return finding;
}

}  // namespace ddpscope
