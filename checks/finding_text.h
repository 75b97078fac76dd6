#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/subtree.h"
#include "model/finding.h"
#include "model/rank_words.h"

namespace ddpscope {

/// `0.5`, `1e-08`, `nan`, `-inf`: NaN has no sign.
std::string number_text(double value);
/// `412 ms`, `7.0 ms`, `40 us`
std::string ms_text(double ms);
/// `[32, 10]`
std::string shape_text(const std::vector<std::int64_t>& shape);
std::int64_t elements_of(const std::vector<const TensorState*>& tensors);
/// The three largest shapes, each once: `[512, 512, 3, 3] x3`.
std::vector<std::string> largest_shapes(const std::vector<const TensorState*>& tensors);
class RunState;

/// How many there are of each word, most first; words that are equally frequent as they came.
struct WordCount {
  std::string word;
  std::int64_t count = 0;
};
std::vector<WordCount> counted_words(const std::vector<std::string>& words);
/// The types of the modules that use these tensors, "" where none was seen.
std::vector<WordCount> module_types(const RunState& state,
                                    const std::vector<const TensorState*>& tensors);
/// Who uses tensors, from the type of the module of each, "" where none was seen: `a live
/// LinearImpl uses them`, `live modules use them (2 of LinearImpl, 1 of LayerNormImpl)`.
std::string users_text(const std::vector<WordCount>& types);
std::string joined(const std::vector<std::string>& words, std::string_view between = ", ");
std::vector<FactScalar> as_fact(const std::vector<std::string>& words);
/// The paths of a group's tensors, at most 64 of them.
std::vector<std::string> paths_of(const TensorGroup& group);
/// `fc.weight, fc.bias, norm.weight and 4 more`
std::string named_in(const TensorGroup& group);
std::string optimizer_label(const OptimizerState& optimizer);

/// A finding at the place of a group, with the facts about its parameters.
Finding about(const TensorGroup& group);

}  // namespace ddpscope
