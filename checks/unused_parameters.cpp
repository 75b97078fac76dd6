#include "checks/unused_parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"
#include "model/rank_words.h"

namespace ddpscope {

Unused unused_like(const GradientSide& first, const GradientSetsDiffer& gradients) {
  Unused unused{.with = first.with,
                .without = first.without,
                .model = first.model,
                .paths = {},
                .causes = first.causes};
  for (const GradientSide& side : gradients.parameters) {
    if (side.with != first.with || side.without != first.without) continue;
    if (side.model != first.model) continue;
    unused.paths.push_back(side.path);
    if (side.causes != first.causes) unused.causes.clear();  // no word for all of them
  }
  return unused;
}

std::string unused_words(const Unused& unused) {
  return fmt::format("{} got no gradient on {} and did on {}",
                     counted(std::ssize(unused.paths), "parameter"), rank_words(unused.without),
                     rank_words(unused.with));
}

std::string words_of_others(const GradientSetsDiffer& gradients, const Unused& unused) {
  const auto other = std::ranges::find_if(gradients.parameters, [&](const GradientSide& side) {
    return side.with != unused.with || side.without != unused.without;
  });
  if (other == gradients.parameters.end()) return "";
  return "; " + unused_words(unused_like(*other, gradients));
}

std::string module_of_unused(const std::vector<std::string>& paths) {
  std::string common = paths.front().substr(0, paths.front().rfind('.') + 1);
  for (const std::string& path : paths) {
    while (!path.starts_with(common)) {
      common.pop_back();
      common.resize(common.rfind('.') + 1);  // npos + 1 is 0
    }
  }
  if (!common.empty()) common.pop_back();
  return common;
}

}  // namespace ddpscope
