#include "hooks/module_tree.h"

#include <algorithm>
#include <unordered_set>

namespace ddpscope {
namespace {
using torch::nn::Module;

// The standard lets an explicit instantiation name a private member.
template <class Tag, typename Tag::Type member>
struct TreeReach {
  friend typename Tag::Type member_of(Tag) { return member; }
};
struct Children {
  using Type = Registered::Modules Module::*;
  friend Type member_of(Children);
};
struct TreeParameters {
  using Type = Registered::Tensors Module::*;
  friend Type member_of(TreeParameters);
};
struct Buffers {
  using Type = Registered::Tensors Module::*;
  friend Type member_of(Buffers);
};
template struct TreeReach<Children, &Module::children_>;
template struct TreeReach<TreeParameters, &Module::parameters_>;
template struct TreeReach<Buffers, &Module::buffers_>;

class Visitor {
 public:
  using Visit = std::function<void(const Module&, const PlaceInTree&)>;
  explicit Visitor(const Visit& visit) : visit_(visit) {}

  void go(const Module& module, const PlaceInTree& place) {
    if (!seen_.insert(&module).second) return;
    visit_(module, place);
    const auto& children = Registered::children(module);
    for (std::size_t i = 0; i < children.size(); ++i) {
      const auto& child = children[i];
      if (child.value() == nullptr) continue;
      PlaceInTree below = place;
      below.steps.push_back({i, child.value().get()});
      below.path += (below.path.empty() ? "" : ".") + child.key();
      go(*child.value(), below);
    }
  }

 private:
  const Visit& visit_;
  std::unordered_set<const Module*> seen_;
};
}  // namespace

const Registered::Modules& Registered::children(const Module& module) {
  return module.*member_of(Children{});
}
const Registered::Tensors& Registered::parameters(const Module& module) {
  return module.*member_of(TreeParameters{});
}
const Registered::Tensors& Registered::buffers(const Module& module) {
  return module.*member_of(Buffers{});
}

bool Registered::holds(const Module& module, const c10::TensorImpl* tensor) {
  const auto is_it = [tensor](const auto& item) {
    return item.value().unsafeGetTensorImpl() == tensor;
  };
  return std::ranges::any_of(parameters(module), is_it) ||
         std::ranges::any_of(buffers(module), is_it);
}

bool PlaceInTree::stands_below(const Module& root) const {
  const Module* at = &root;
  for (const Step& step : steps) {
    const auto& children = Registered::children(*at);
    if (step.index >= children.size()) return false;
    at = children[step.index].value().get();
    if (at != step.module) return false;
  }
  return true;
}

void for_each_below(const Module& root,
                    const std::function<void(const Module&, const PlaceInTree&)>& visit) {
  Visitor(visit).go(root, {});
}

}  // namespace ddpscope
