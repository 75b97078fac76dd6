#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <unordered_set>
#include <vector>

namespace ddpscope {

/// Where the graph of these tensors begins.
inline torch::autograd::edge_list edges_of(const torch::autograd::variable_list& roots) {
  torch::autograd::edge_list edges;
  for (const at::Tensor& root : roots) {
    if (root.defined()) edges.push_back(torch::autograd::impl::gradient_edge(root));
  }
  return edges;
}

/// Visits every node that `roots` reach once, nearest first: `visit(node, consumer)`, where the
/// consumer of a root is null. Stops after a million nodes: the bound keeps a step from standing
/// still.
template <class Visit>
void walk_graph(const torch::autograd::edge_list& roots, Visit&& visit) {
  using torch::autograd::Node;
  constexpr std::size_t kMaxNodes = 1'000'000;
  struct Reached {
    Node* node;
    Node* consumer;
  };
  std::unordered_set<Node*> seen;
  std::vector<Reached> reached;
  const auto add = [&](const torch::autograd::edge_list& edges, Node* consumer) {
    for (const auto& edge : edges) {
      Node* node = edge.function.get();
      if (node != nullptr && seen.insert(node).second) reached.push_back({node, consumer});
    }
  };
  add(roots, nullptr);
  for (std::size_t i = 0; i < reached.size() && i < kMaxNodes; ++i) {
    const Reached at = reached[i];
    visit(*at.node, at.consumer);
    add(at.node->next_edges(), at.node);
  }
}

}  // namespace ddpscope
