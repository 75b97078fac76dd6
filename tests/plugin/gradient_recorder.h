#pragma once

// The gradients that hooks told, and what autograd itself says.
#include <ddpscope/hooks.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/torch_test.h"

namespace ddpscope::test {

using Tensors = std::vector<at::Tensor>;

inline Tensors copied(std::span<const at::Tensor> tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.defined() ? tensor.detach().clone() : at::Tensor());
  }
  return copies;
}

// The tensors of each module's last call, and the gradients that hooks told of it.
struct Recorder {
  explicit Recorder(const HookTarget& root) {
    hook = register_module_hook(
        root,
        {.before = [this](const ForwardCall& call) { keep(call.path, 'i', call.inputs); },
         .after = [this](const ForwardCall& call) { keep(call.path, 'o', call.outputs); },
         .backward =
             [this](const BackwardCall& call) {
               told[key(call.path, call.of == BackwardCall::GradientsOf::kInputs ? 'i' : 'o')] =
                   copied(call.gradients);
             }});
  }
  static std::string key(std::string_view path, char side) {
    return std::string(path) + ":" + side;
  }
  void keep(std::string_view path, char side, std::span<const at::Tensor> tensors) {
    seen[key(path, side)] = Tensors(tensors.begin(), tensors.end());
  }

  // What autograd itself says about the tensors that forward was given and gave.
  std::map<std::string, Tensors> oracle(const at::Tensor& loss) const {
    std::map<std::string, Tensors> gradients;
    for (const auto& [name, tensors] : seen) {
      Tensors own(tensors.size());
      bool any = false;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!tensors[i].defined() || !tensors[i].requires_grad()) continue;
        own[i] = torch::autograd::grad({loss}, {tensors[i]}, {}, /*retain_graph=*/true,
                                       /*create_graph=*/false, /*allow_unused=*/true)[0];
        any |= own[i].defined();
      }
      if (any) gradients[name] = own;
    }
    return gradients;
  }

  std::map<std::string, Tensors> seen;
  std::map<std::string, Tensors> told;
  HookHandle hook;
};

inline bool same(const Tensors& one, const Tensors& other) {
  if (one.size() != other.size()) return false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i].defined() != other[i].defined()) return false;
    if (one[i].defined() && !one[i].equal(other[i])) return false;
  }
  return true;
}

inline void check_same(const std::map<std::string, Tensors>& told,
                       const std::map<std::string, Tensors>& expected) {
  CHECK(told.size() == expected.size());
  for (const auto& [name, gradients] : expected) {
    INFO(name);
    REQUIRE(told.contains(name));
    CHECK(same(told.at(name), gradients));
  }
}

}  // namespace ddpscope::test
