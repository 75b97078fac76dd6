#include "hooks/script_discovery.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <set>

#include "hooks/capture.h"
#include "hooks/interposed.h"
#include "hooks/model_discovery.h"

namespace ddpscope {
namespace {
using ScriptModule = torch::jit::Module;

struct ScriptRoot {
  ModelId model = 0;
  std::set<TensorId> tensors;
};

class ScriptRoots {
 public:
  void take(Capture& capture, const ScriptModule& module);

 private:
  std::mutex mutex_;
  std::vector<ScriptRoot> roots_;
};

ScriptRoots& script_roots() {
  static auto* const leaked = new ScriptRoots;
  return *leaked;
}

void ScriptRoots::take(Capture& capture, const ScriptModule& module) {
  std::set<TensorId> ids;
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/true)) {
    ids.insert(capture.id_of(parameter));
  }
  const auto holds = [](const std::set<TensorId>& all, const std::set<TensorId>& some) {
    return std::ranges::includes(all, some);
  };
  const std::lock_guard lock(mutex_);
  if (std::ranges::any_of(roots_, [&](const ScriptRoot& r) { return holds(r.tensors, ids); })) {
    return;
  }
  for (const ScriptRoot& root : roots_) {
    if (holds(ids, root.tensors)) capture.modules().detach(capture, root.model);
  }
  std::erase_if(roots_, [&](const ScriptRoot& root) { return holds(ids, root.tensors); });
  const ModelId model = capture.modules().attach(capture, module);
  roots_.push_back({.model = model, .tensors = std::move(ids)});
}

thread_local int script_depth = 0;

template <class List>
struct ScriptMethod {
  using Hooked = Interposed<ScriptMethod, List(const ScriptModule*, bool)>;
  static List call(const ScriptModule* self, bool recurse) {
    if (script_depth++ == 0 && is_discovering()) {
      start_discovery_session();
      as_guest("tree", [&](Capture& capture) { script_roots().take(capture, *self); });
    }
    --script_depth;
    return Hooked::original(self, recurse);
  }
};
}  // namespace

void discover_script_models() noexcept {
  using Parameters = ScriptMethod<torch::jit::parameter_list>;
  using NamedParameters = ScriptMethod<torch::jit::named_parameter_list>;
  Parameters::Hooked::install("_ZNK5torch3jit6Module10parametersEb", Parameters::call);
  NamedParameters::Hooked::install("_ZNK5torch3jit6Module16named_parametersEb",
                                   NamedParameters::call);
}

}  // namespace ddpscope
