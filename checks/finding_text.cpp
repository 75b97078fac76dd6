#include "checks/finding_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxPaths = 64;
constexpr std::size_t kMaxShapes = 3;
}  // namespace

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
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
