#include "checks/memory_classes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "checks/byte_text.h"

namespace ddpscope {
namespace {
constexpr std::array<std::string_view, kMemoryClasses> kWords = {
    "parameters", "gradients", "optimizer", "saved_activations", "batch", "other"};
constexpr std::array<std::string_view, 16> kMakeViews = {
    "aten::view",    "aten::reshape", "aten::t",         "aten::transpose",
    "aten::permute", "aten::expand",  "aten::slice",     "aten::select",
    "aten::squeeze", "aten::unbind",  "aten::unsqueeze", "aten::flatten",
    "aten::chunk",   "aten::split",   "aten::narrow",    "aten::detach"};

bool makes_view(std::string_view op) {
  return op.ends_with('_') || std::ranges::find(kMakeViews, op) != kMakeViews.end();
}

/// Tensors of the size of a parameter that the optimizer keeps for each.
std::int64_t kept_per_parameter(const OptimizerState& optimizer, std::size_t group) {
  if (optimizer.type.starts_with("Adam")) return 2;
  if (optimizer.type == "RMSprop" || optimizer.type == "Adagrad") return 1;
  const bool has_momentum =
      group < optimizer.options.size() && optimizer.options[group].momentum != 0;
  return optimizer.type == "SGD" && has_momentum ? 1 : 0;
}

void add_registered(const RunState& state, MemoryUse& use) {
  for (const auto& [id, tensor] : state.tensors().all()) {
    if (tensor.registrations.empty() && tensor.owners.empty()) continue;
    use.of(MemoryClass::kParameters) += bytes_of(tensor.info);
    if (tensor.gradients > 0) use.of(MemoryClass::kGradients) += bytes_of(tensor.info);
  }
}

void add_optimizers(const RunState& state, MemoryUse& use) {
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (optimizer.steps == 0) continue;
    for (std::size_t group = 0; group < optimizer.groups.size(); ++group) {
      for (const OptimizerMember& member : optimizer.groups[group]) {
        const TensorState* tensor = state.tensor(member.tensor);
        if (tensor == nullptr || tensor->gradients == 0) continue;
        use.of(MemoryClass::kOptimizer) +=
            kept_per_parameter(optimizer, group) * bytes_of(tensor->info);
      }
    }
  }
}

/// What enters from outside: no operator of the step made it, and nothing registers it.
bool is_batch(TensorId id, const RunState& state) {
  const TensorState* tensor = state.tensor(id);
  return tensor != nullptr && !tensor->info.requires_grad && tensor->registrations.empty() &&
         tensor->owners.empty() && !state.trace().maker_of(id).has_value();
}

void add_operators(const RunState& state, MemoryUse& use) {
  std::map<std::string, std::int64_t> saved;
  std::set<TensorId> seen;
  std::int64_t largest_batch = 0;
  for (const OpTrace::Record& record : state.trace().records()) {
    for (const TensorId input : record.inputs) {
      if (!is_batch(input, state) || !seen.insert(input).second) continue;
      const TensorInfo& info = state.tensor(input)->info;
      use.of(MemoryClass::kBatch) += bytes_of(info);
      if (info.shape.empty() || bytes_of(info) <= largest_batch) continue;
      largest_batch = bytes_of(info);
      use.batch_rows = info.shape.front();
    }
    if (!record.grad_mode || makes_view(record.op)) continue;
    for (const OpTrace::Output& output : record.outputs) {
      if (output.requires_grad) saved[record.path] += output.bytes;
    }
  }
  for (const auto& [path, bytes] : saved) {
    use.of(MemoryClass::kSavedActivations) += bytes;
    use.saved_by_module.push_back({.path = path, .bytes = bytes});
  }
  std::ranges::stable_sort(use.saved_by_module, std::ranges::greater(), &MemoryOfModule::bytes);
}
}  // namespace

std::string_view word_of(MemoryClass memory) { return kWords[static_cast<std::size_t>(memory)]; }

std::int64_t MemoryUse::all() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

MemoryClass MemoryUse::largest() const {
  return static_cast<MemoryClass>(std::ranges::max_element(bytes) - bytes.begin());
}

MemoryUse memory_use(const RunState& state) {
  MemoryUse use;
  add_registered(state, use);
  add_optimizers(state, use);
  add_operators(state, use);
  return use;
}

}  // namespace ddpscope
