#include "checks/unregistered_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "checks/fed_leaves.h"
#include "checks/finding_text.h"
#include "checks/fixed_models.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxOps = 4;

bool was_reached(const RegisteredTensor& registered, const RunState& state) {
  const TensorState* tensor = state.tensor(registered.tensor.id);
  return tensor != nullptr && tensor->reached_steps > 0;
}

/// Of this type, whose trainable parameters no backward has reached; "": none, or more than one.
std::string unused_module(const ModelState& model, std::string_view type, const RunState& state) {
  std::map<std::string, bool> reached;  // by path
  for (const RegisteredTensor& registered : model.tensors) {
    if (registered.is_buffer || !registered.tensor.requires_grad) continue;
    reached[registered.module_path] |= was_reached(registered, state);
  }
  std::string found;
  for (const ModuleInfo& module : model.modules) {
    const auto entry = reached.find(module.path);
    if (module.type != type || entry == reached.end() || entry->second) continue;
    if (!found.empty()) return "";
    found = module.path;
  }
  return found;
}
}  // namespace

std::vector<std::string> consumer_ops(const std::vector<const TensorState*>& tensors) {
  std::vector<std::string> ops;
  for (const TensorState* tensor : tensors) {
    if (tensor->use.ops.empty()) continue;
    const std::string& op = tensor->use.ops.front();
    if (ops.size() < kMaxOps && std::ranges::find(ops, op) == ops.end()) ops.push_back(op);
  }
  return ops;
}

namespace {
bool is_of_libtorch(const ModelState& model, const std::string& path) {
  const auto found = std::ranges::find(model.modules, path, &ModuleInfo::path);
  return found != model.modules.end() && found->type.starts_with("torch::nn::");
}
}  // namespace

std::string common_module(const ModelState& model, const std::vector<const TensorState*>& tensors) {
  std::optional<std::string> path;
  for (const TensorState* tensor : tensors) {
    const std::string own = tensor->use.common_path.value_or("");
    path = path.has_value() ? common_path(*path, own) : own;
  }
  std::string module = path.value_or("");
  if (std::ranges::any_of(tensors, [](const auto* tensor) { return tensor->use.is_inside; })) {
    return module;
  }
  while (!module.empty() && is_of_libtorch(model, module)) {
    const std::size_t dot = module.rfind('.');
    module.resize(dot == std::string::npos ? 0 : dot);
  }
  return module;
}

namespace {
const Fix& external_fix() {
  static const Fix external = {"declare them external, if they are inputs on purpose",
                               Applicability::kNeedsDecision};
  return external;
}

/// Whether some operator behind these tensors is one that `is_reader` knows.
template <class Test>
bool flow_into(std::vector<TensorId> open, const RunState& state, const Test& is_reader) {
  const OpTrace& trace = state.trace();
  std::set<std::size_t> seen;
  while (!open.empty()) {
    const TensorId id = open.back();
    open.pop_back();
    for (const std::size_t index : trace.consumers_of(id)) {
      if (!seen.insert(index).second) continue;
      const OpTrace::Record& record = trace.records()[index];
      if (is_reader(record)) return true;
      for (const OpTrace::Output& output : record.outputs) open.push_back(output.id);
    }
  }
  return false;
}

bool flow_into_model(const std::vector<const TensorState*>& tensors, const RunState& state) {
  std::vector<TensorId> ids;
  for (const TensorState* tensor : tensors) ids.push_back(tensor->info.id);
  return flow_into(std::move(ids), state, [&state](const OpTrace::Record& record) {
    return reads_registered(record, state);
  });
}

bool flow_from_model(const ModelState& known, const std::vector<const TensorState*>& tensors,
                     const RunState& state) {
  std::set<TensorId> loose;
  for (const TensorState* tensor : tensors) loose.insert(tensor->info.id);
  std::vector<TensorId> ids;
  for (const RegisteredTensor& registered : known.tensors) ids.push_back(registered.tensor.id);
  return flow_into(std::move(ids), state, [&](const OpTrace::Record& record) {
    return std::ranges::any_of(record.inputs, [&](TensorId input) {
      return loose.contains(state.trace().leaf_behind(input));
    });
  });
}

/// They are as a whole of the shapes of the known model, in two layers or more, and run beside it:
/// a teacher, or a target.
bool may_be_target(const ModelState& known, const std::vector<const TensorState*>& tensors,
                   const RunState& state) {
  std::multiset<std::vector<std::int64_t>> shapes;
  for (const TensorState* tensor : tensors) shapes.insert(tensor->info.shape);
  std::multiset<std::vector<std::int64_t>> wanted;
  std::set<std::string> modules;
  for (const RegisteredTensor& registered : known.tensors) {
    if (registered.is_buffer) continue;
    wanted.insert(registered.tensor.shape);
    modules.insert(registered.module_path);
  }
  return modules.size() > 1 && shapes == wanted && !flow_into_model(tensors, state) &&
         !flow_from_model(known, tensors, state);
}

bool may_be_of_other_model(const std::vector<const TensorState*>& tensors, const RunState& state) {
  return std::ranges::any_of(tensors, [&state](const TensorState* tensor) {
    return state.loose_module_is_shared(tensor->info.id) && !tensor->use.is_inside;
  });
}

std::vector<Fix> other_model_fixes(const ModelState& known,
                                   const std::vector<const TensorState*>& tensors,
                                   const RunState& state) {
  std::vector<Fix> fixes = {
      {"a second model: give its parameters() to an optimizer", Applicability::kLikely},
      {fmt::format("a part of {}: register_module(name, part) for each element of a vector, or "
                   "torch::nn::ModuleList",
                   known.label),
       Applicability::kLikely}};
  if (flow_into_model(tensors, state)) std::swap(fixes.front(), fixes.back());
  fixes.push_back(external_fix());
  return fixes;
}

void say_target(const ModelState& known, UnregisteredWords& words) {
  words.severity = Severity::kWarning;
  words.why +=
      fmt::format("; {} has the same shapes, and nothing flows from one to the other", known.label);
  for (Fix& fix : words.fixes) fix.applicability = Applicability::kNeedsDecision;
  words.fixes.insert(
      words.fixes.begin(),
      {"a teacher or a target: run its forward under torch::NoGradGuard", Applicability::kLikely});
}

/// What an optimizer trains is the input of these, and nothing else is.
bool read_members_alone(const std::vector<const TensorState*>& tensors, const RunState& state) {
  std::set<TensorId> ids;
  for (const TensorState* tensor : tensors) ids.insert(tensor->info.id);
  return are_behind_members([&](const TensorState& read) { return ids.contains(read.info.id); },
                            state);
}

void say_fixed(UnregisteredWords& words) {
  words.severity = Severity::kNote;
  words.why += "; what an optimizer trains is their input, and nothing else is";
  for (Fix& fix : words.fixes) fix.applicability = Applicability::kNeedsDecision;
  words.fixes.insert(words.fixes.begin(),
                     {"requires_grad_(false), if they are to stay as they are: backward then "
                      "computes less",
                      Applicability::kLikely});
}

/// What of a model is known is one layer, which alone was asked for its parameters.
bool is_layer(const ModelState& known) {
  return is_of_libtorch(known, "") && known.label.find("Sequential") == std::string::npos;
}

void say_whole_unknown(const ModelState& known, UnregisteredWords& words) {
  words.severity = Severity::kNote;
  words.why += fmt::format("; what {} is a layer of may register them", known.label);
  for (Fix& fix : words.fixes) fix.applicability = Applicability::kNeedsDecision;
}

std::vector<Fix> unregistered_fixes(const std::string& unused) {
  const Fix& external = external_fix();
  if (!unused.empty()) {
    const std::string name = unused.substr(unused.rfind('.') + 1);
    return {{fmt::format("replace_module(\"{}\", layer) in place of an assignment to the member: "
                         "{}, registered and of the same type, is not used",
                         name, unused),
             Applicability::kLikely},
            external};
  }
  return {{"register_module(name, layer) for each element of a vector, or torch::nn::ModuleList",
           Applicability::kLikely},
          {"register_parameter(name, tensor) for a plain tensor", Applicability::kLikely},
          external};
}

}  // namespace

UnregisteredWords unregistered_words(const ModelState& known,
                                     const std::vector<const TensorState*>& tensors,
                                     const RunState& state) {
  const std::vector<std::string> ops = consumer_ops(tensors);
  const std::vector<WordCount> types = module_types(state, tensors);
  const std::string users = users_text(types) + (ops.empty() ? "" : " through " + joined(ops));
  const std::string largest = "; largest " + joined(largest_shapes(tensors));
  if (may_be_of_other_model(tensors, state)) {
    const bool is_target = may_be_target(known, tensors, state);
    UnregisteredWords other = {
        .where = "in no optimizer and in no known model",
        .why = fmt::format("{}, and more than one object holds such a layer, as in a block "
                           "that {} does not register or in a second model{}",
                           users, known.label, largest),
        .unused = {},
        .fixes = other_model_fixes(known, tensors, state)};
    if (is_target) say_target(known, other);
    if (!is_target && read_members_alone(tensors, state)) say_fixed(other);
    if (!is_target && is_layer(known)) say_whole_unknown(known, other);
    return other;
  }
  UnregisteredWords words = {.where = "registered nowhere",
                             .why = users + ", no module and no optimizer holds them" + largest,
                             .unused = {},
                             .fixes = {}};
  if (types.size() == 1) words.unused = unused_module(known, types.front().word, state);
  words.fixes = unregistered_fixes(words.unused);
  return words;
}

}  // namespace ddpscope
