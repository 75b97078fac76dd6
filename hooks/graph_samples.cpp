#include "hooks/graph_samples.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "hooks/capture.h"
#include "hooks/per_thread.h"

namespace ddpscope {
namespace {
using torch::autograd::Node;
constexpr std::int64_t kSampleEvery = 16;  // steps
constexpr std::size_t kMostSamples = 128;
constexpr int kMostNodes = 10'000;

// From the root down to the node nearest to the leaves, of those that this thread made since its
// last backward: always to the one that was made first.
NodePointer bottom_of(const NodePointer& root, std::uint64_t since) {
  const std::uint64_t thread = at::RecordFunction::currentThreadId();
  const auto is_new = [&](const Node& node) {
    return node.num_outputs() > 0 && node.thread_id() == thread && node.sequence_nr() >= since;
  };
  if (root == nullptr || !is_new(*root)) return nullptr;
  NodePointer at = root;
  for (int i = 0; i < kMostNodes; ++i) {
    const NodePointer* next = nullptr;
    for (const auto& edge : at->next_edges()) {
      if (edge.function == nullptr || !is_new(*edge.function)) continue;
      const bool is_older =
          next == nullptr || edge.function->sequence_nr() < (*next)->sequence_nr();
      if (is_older) next = &edge.function;
    }
    if (next == nullptr) break;
    NodePointer below = *next;
    at = std::move(below);
  }
  return at;
}
}  // namespace

GraphSamples& GraphSamples::here() { return PerThread<GraphSamples>::get(); }

void GraphSamples::Samples::add(const NodePointer& node, std::int64_t step) {
  if (all.size() < kMostSamples) all.push_back({.node = WeakNodePointer(node), .step = step});
}

OldGraphs GraphSamples::Samples::count() {
  std::erase_if(all, [this](const Sample& sample) {
    const bool is_gone = sample.node.expired();
    if (is_gone) died = std::max(died, sample.step);
    return is_gone;
  });
  return {.alive = static_cast<std::int64_t>(all.size()),
          .since = all.empty() ? 0 : all.front().step,
          .died = died};
}

void GraphSamples::see_backward(const torch::autograd::edge_list& roots, BackwardEvent& event) {
  const std::uint64_t since = std::exchange(begun_at_, at::sequence_number::peek());
  const bool is_due = event.at.step - sampled_ >= kSampleEvery;
  if (!is_due || !event.accumulates || event.creates_graph || roots.empty()) return;
  sampled_ = event.at.step;
  event.trained = trained_.count();
  event.evaluated = evaluated_.count();
  if (const NodePointer node = bottom_of(roots.front().function, since)) {
    trained_.add(node, event.at.step);
  }
  wanted_ = Wanted::kLayer;
}

void GraphSamples::add_layer(const void* layer, bool training, const at::Tensor& result) {
  const bool is_asked = training == (wanted_ == Wanted::kLayer);
  if (!is_asked || !result.defined() || (!training && layer != layer_)) return;
  if (torch::autograd::impl::get_view_autograd_meta(result) != nullptr) return;
  const auto* meta = torch::autograd::impl::get_autograd_meta(result);
  if (meta == nullptr || meta->grad_fn_ == nullptr) return;
  if (training) {
    layer_ = layer;
    wanted_ = Wanted::kEvaluation;
    return;
  }
  wanted_ = Wanted::kNothing;
  as_guest("graph",
           [&](Capture& capture) { evaluated_.add(meta->grad_fn_, capture.marker().now().step); });
}

}  // namespace ddpscope
