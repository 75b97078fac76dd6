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
#include "hooks/made_in.h"
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
  std::unordered_map<const Node*, const Node*> consumer_of;
  walk_graph(edges_of(roots),
             [&](const Node& at, const Node* consumer) { consumer_of[&at] = consumer; });
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

NodeValues::NodeValues(const variable_list& roots, bool bad, std::optional<NonfiniteSearch>& search)
    : roots_(roots), bad_(bad), search_(search) {
  here_ = this;
}
NodeValues::~NodeValues() { here_ = nullptr; }

void NodeValues::see_saved(const at::Tensor& saved) noexcept {
  if (bad_ || saved_count_ == saved_.size()) return;
  if (!saved.defined() || !saved.is_cpu()) return;
  saved_[saved_count_++] = saved;
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
  forget_saved();
}

void NodeValues::forget_saved() noexcept {
  while (saved_count_ > 0) saved_[--saved_count_].reset();
}

bool NodeValues::saved_nan() const {
  for (std::size_t i = 0; i < saved_count_; ++i) {
    if (range_of(saved_[i]).nan_count > 0) return true;
  }
  return false;
}

void NodeValues::tell(const Node& node, const at::Tensor& gradient) {
  Capture& capture = *Capture::active();
  NonfiniteNodeEvent event{.at = capture.marker().now(),
                           .node = node.name(),
                           .op = operator_of(node),
                           .place = made_in(capture, node, consumers_of(node, roots_)),
                           .made = SurveyOutputs::here().made_by(&node),
                           .returned = range_of(gradient),
                           .made_by = birth_of(capture, node)};
  if (const auto known = incoming_absmax_.find(&node); known != incoming_absmax_.end()) {
    event.incoming_absmax = known->second;
  }
  event.saved_nan = !search_.has_value() && saved_nan();
  if (event.saved_nan) search_.emplace(capture).begin_here();
  for (std::size_t i = 0; i < saved_count_; ++i) {
    if (event.saved_nan) search_->see(saved_[i]);
    const auto min = numbers_in(saved_[i]).min;
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
