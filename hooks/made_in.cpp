#include "hooks/made_in.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include "model/node_name.h"

namespace ddpscope {
namespace {
using torch::autograd::AccumulateGrad;
using torch::autograd::CopySlices;
using torch::autograd::Node;

constexpr int kMostNodes = 200;

const at::Tensor* leaf_at(const Node* node) {
  const auto* leaf = dynamic_cast<const AccumulateGrad*>(node);
  return leaf != nullptr && leaf->variable.defined() ? &leaf->variable : nullptr;
}

// A leaf that the node reads, itself or through one view of it; 0: none.
TensorId leaf_of(Capture& capture, const Node& node) {
  for (const auto& edge : node.next_edges()) {
    const at::Tensor* leaf = leaf_at(edge.function.get());
    if (leaf == nullptr && edge.function != nullptr && edge.function->num_outputs() == 1) {
      leaf = leaf_at(edge.function->next_edge(0).function.get());
    }
    if (leaf != nullptr) return capture.id_of(*leaf);
  }
  return 0;
}

// The one that ran last of those whose results the node reads; null: it reads leaves alone.
const Node* newest_before(const Node& node) {
  const Node* newest = nullptr;
  for (const auto& edge : node.next_edges()) {
    const Node* parent = edge.function.get();
    if (parent == nullptr || parent->num_outputs() == 0) continue;
    if (newest == nullptr || parent->sequence_nr() > newest->sequence_nr()) newest = parent;
  }
  return newest;
}

ModuleId module_of(const Capture& capture, const Node& node) {
  const auto birth = birth_of(capture, node);
  return birth.has_value() ? birth->module : 0;
}
}  // namespace

std::optional<Doing> birth_of(const Capture& capture, const Node& node) {
  const auto birth = capture.nodes().find({node.thread_id(), node.sequence_nr()});
  return birth.has_value() ? std::optional(birth->by.unpacked()) : std::nullopt;
}

MadeIn made_in(Capture& capture, const Node& node, const std::vector<const Node*>& consumers) {
  const auto birth = birth_of(capture, node);
  MadeIn made{.module = birth.has_value() ? birth->module : 0};
  if (made.module != 0) return made;
  if (!birth.has_value()) made.leaf = leaf_of(capture, node);
  const Node* before = newest_before(node);
  for (int i = 0; i < kMostNodes && before != nullptr; ++i, before = newest_before(*before)) {
    made.before = module_of(capture, *before);
    made.leaf_before = made.before == 0 ? leaf_of(capture, *before) : 0;
    if (made.before != 0 || made.leaf_before != 0) break;
  }
  for (const Node* consumer : consumers) {
    made.after = module_of(capture, *consumer);
    made.leaf_after = made.after == 0 ? leaf_of(capture, *consumer) : 0;
    if (made.after != 0 || made.leaf_after != 0) break;
  }
  return made;
}

bool writes_through_view(const Node& node) {
  return dynamic_cast<const CopySlices*>(&node) != nullptr;
}

std::string operator_of(const Node& node) {
  const auto* slices = dynamic_cast<const CopySlices*>(&node);
  if (slices == nullptr || slices->fn == nullptr) return op_of_node(node.name());
  const std::string written = slices->fn->name();
  return written.ends_with("CopyBackwards") ? "aten::copy_" : op_of_node(written) + "_";
}

}  // namespace ddpscope
