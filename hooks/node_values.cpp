#include "hooks/node_values.h"

#include <torch/csrc/autograd/edge.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hooks/capture.h"
#include "hooks/graph_walk.h"
#include "hooks/interposed.h"
#include "hooks/nonfinite_search.h"
#include "hooks/survey_outputs.h"
#include "hooks/value_reader.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

// Those on one way from the node to a root, the nearest first.
std::vector<const Node*> consumers_of(const Node& node, const variable_list& roots) {
  edge_list edges;
  for (const at::Tensor& root : roots) {
    if (root.defined()) edges.push_back(torch::autograd::impl::gradient_edge(root));
  }
  std::unordered_map<const Node*, const Node*> consumer_of;
  walk_graph(edges, [&](const Node& at, const Node* consumer) { consumer_of[&at] = consumer; });
  std::vector<const Node*> consumers;
  const auto next_of = [&](const Node* at) {
    const auto found = consumer_of.find(at);
    return found == consumer_of.end() ? nullptr : found->second;
  };
  for (const Node* at = next_of(&node); at != nullptr; at = next_of(at)) consumers.push_back(at);
  return consumers;
}

using Format = std::function<std::string(const std::string&)>;
struct Validate;
using InterposedValidate =
    Interposed<Validate, void(const edge_list&, variable_list&, const Format&)>;

// The engine asks for this check of all that a node returned, and of what it starts with.
void on_validate(const edge_list& edges, variable_list& gradients, const Format& format) {
  InterposedValidate::original(edges, gradients, format);
  NodeValues* values = NodeValues::here();
  if (values == nullptr || !values->are_finite()) return;
  as_reader([&](Capture&) { values->see_returned(edges, gradients); });
}
}  // namespace

NodeValues::NodeValues(const variable_list& roots, bool bad) : roots_(roots), bad_(bad) {
  here_ = this;
}
NodeValues::~NodeValues() { here_ = nullptr; }

void NodeValues::see_saved(const at::Tensor& saved) noexcept {
  if (bad_ || saved_count_ == saved_.size() || !saved.defined()) return;
  saved_[saved_count_++].emplace(saved.getIntrusivePtr());
}

void NodeValues::see_returned(const edge_list& edges, const variable_list& gradients) {
  const auto node = torch::autograd::get_current_node();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const ValueRange values = range_of(gradients[i]);
    if (values.is_finite()) {
      if (i >= edges.size() || values.elements == 0) continue;
      double& absmax = incoming_absmax_[edges[i].function.get()];
      absmax = std::max(absmax, values.absmax);
      continue;
    }
    bad_ = true;  // what follows has it from here
    if (node != nullptr) tell(*node, gradients[i]);
    break;
  }
  saved_count_ = 0;
}

void NodeValues::tell(const Node& node, const at::Tensor& gradient) const {
  Capture& capture = *Capture::active();
  const MadeIn made = made_in(capture, node, consumers_of(node, roots_));
  NonfiniteNodeEvent event{.at = capture.marker().now(),
                           .node = node.name(),
                           .op = op_of_node(node.name()),
                           .module = made.module,
                           .before = made.before,
                           .after = made.after,
                           .made = SurveyOutputs::here().made_by(&node),
                           .returned = range_of(gradient),
                           .made_by = made.by};
  if (const auto known = incoming_absmax_.find(&node); known != incoming_absmax_.end()) {
    event.incoming_absmax = known->second;
  }
  for (std::size_t i = 0; i < saved_count_; ++i) {
    const auto alive = saved_[i]->lock();
    if (!alive.defined()) continue;
    const auto min = smallest_of(at::Tensor(alive));
    if (!min.has_value()) continue;
    event.saved_min = event.saved_known ? std::min(event.saved_min, *min) : *min;
    event.saved_known = true;
  }
  capture.put_large(std::move(event));
}

bool install_node_values() noexcept {
  return InterposedValidate::install_for_watched(
      "_ZN5torch8autograd16validate_outputsERKSt6vectorINS0_4EdgeESaIS2_EERS1_IN2at6TensorESaIS8_"
      "EERKSt8functionIFNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSI_EE",
      on_validate);
}

}  // namespace ddpscope
