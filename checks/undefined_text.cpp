#include "checks/undefined_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "checks/failure_hints.h"
#include "checks/finding_text.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxPaths = 4;

/// `argument #0 'self'` of the text of LibTorch; "" where it names none.
std::string argument_in(const std::string& message) {
  const auto begin = message.find("argument #");
  if (begin == std::string::npos) return "";
  return message.substr(begin, message.find_first_of("\n;,", begin) - begin);
}

/// What modules hold that ran in this step and did not read it.
std::vector<const TensorState*> not_read(const RunState& state) {
  using Place = std::pair<ModelId, std::string>;
  std::set<Place> ran;
  std::set<TensorId> read;
  for (const OpTrace::Record& record : state.trace().records()) {
    const ModulePlace* place = state.place_of(record.module);
    if (place == nullptr) continue;
    ran.insert({place->model, place->path});
    for (const TensorId input : record.inputs) read.insert(state.trace().leaf_behind(input));
  }
  std::vector<const TensorState*> left;
  for (const auto& [id, tensor] : state.tensors().all()) {
    if (tensor.registrations.empty() || tensor.gradients == 0 || read.contains(id)) continue;
    const Registration& at = tensor.registrations.front();
    if (ran.contains({at.model, at.module_path})) left.push_back(&tensor);
  }
  return left;
}
}  // namespace

bool is_of_undefined(const std::string& message) {
  return message.find(kUndefinedArgument) != std::string::npos;
}

void say_undefined(const std::string& message, const RunState& state, Finding& finding) {
  const std::string argument = argument_in(message);
  finding.what += ": " + (argument.empty() ? "an argument" : argument) + " is an undefined tensor";
  std::vector<std::string> paths;
  for (const TensorState* tensor : not_read(state)) paths.push_back(tensor_path(*tensor));
  if (paths.empty()) return;
  std::ranges::sort(paths);
  if (paths.size() > kMaxPaths) {
    const std::size_t left = paths.size() - kMaxPaths;
    paths.resize(kMaxPaths);
    paths.push_back(fmt::format("{} more", left));
  }
  finding.why += "; the modules that ran in this step did not read their registered " +
                 joined(paths) + ", as where these members were assigned other tensors";
}

}  // namespace ddpscope
