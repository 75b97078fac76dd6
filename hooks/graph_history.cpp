#include "hooks/graph_history.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "hooks/doing.h"
#include "hooks/graph_walk.h"
#include "hooks/near_tls.h"
#include "hooks/node_pointer.h"
#include "hooks/per_thread.h"

namespace ddpscope {
namespace {
using torch::autograd::AccumulateGrad;
using torch::autograd::edge_list;
using torch::autograd::Node;
constexpr std::size_t kRoots = 64;
constexpr std::size_t kFirstPasses = 8;

NodeKey key_of(const Node& node) {
  return {.thread = node.thread_id(), .sequence = node.sequence_nr()};
}

/// The number of this thread's newest node at the last backward of each of the last cycles.
class CycleMarks {
 public:
  void mark(std::int64_t cycle, std::uint64_t next_sequence) {
    if (count_ == 0 || at(count_ - 1).cycle != cycle) ++count_;
    at(count_ - 1) = {cycle, next_sequence};
  }
  /// How many cycles before `now` a node of this thread was made.
  std::int64_t cycles_back(std::uint64_t sequence, std::int64_t now) const {
    const std::size_t oldest = count_ > marks_.size() ? count_ - marks_.size() : 0;
    for (std::size_t i = count_; i > oldest; --i) {
      const Mark& mark = marks_[(i - 1) % marks_.size()];
      if (mark.cycle < now && sequence >= mark.next_sequence) return now - mark.cycle - 1;
      if (i - 1 == oldest) return mark.cycle < now ? now - mark.cycle : 0;
    }
    return 0;
  }

 private:
  struct Mark {
    std::int64_t cycle = 0;
    std::uint64_t next_sequence = 0;
  };
  Mark& at(std::size_t i) { return marks_[i % marks_.size()]; }

  std::array<Mark, 128> marks_{};
  std::size_t count_ = 0;
};

CycleMarks& marks() { return PerThread<CycleMarks>::get(); }

/// A backward that began.
struct Pass {
  std::uint64_t number = 0;
  NodeKey key;
  Doing by;
  Leaves leaves;
};

/// The root of a pass. The reference is weak: it keeps no node and no tensor.
struct Root {
  WeakNodePointer node;
  std::uint64_t pass = 0;
  std::int64_t step = 0;
};

struct Passes {
  std::mutex mutex;
  std::uint64_t begun = 0;
  std::deque<Pass> newest;
  std::vector<Root> roots;  // of the newest passes; those that died leave it at the next backward
};

Passes& passes() {
  static auto* const leaked = new Passes;
  return *leaked;
}

DDPSCOPE_NEAR thread_local std::int64_t last_cycles_back = 0;
DDPSCOPE_NEAR thread_local bool grows = false;
thread_local std::optional<NodeKey> freed_node;
std::string& freed_name() {
  struct Name {
    std::string text;
  };
  return PerThread<Name>::get().text;
}

struct Shared {
  std::int64_t nodes = 0;
  NodeKey newest;
  std::string newest_name;
};

// The first node that both walks meet, nearest to the failing roots, names what they share.
template <class IsShared>
Shared shared_nodes(const edge_list& roots, IsShared&& is_shared) {
  Shared shared;
  walk_graph(roots, [&](Node& node, const Node*) {
    if (node.num_outputs() == 0 || !is_shared(node)) return;
    if (shared.nodes++ > 0) return;
    shared.newest = key_of(node);
    shared.newest_name = node.name();
  });
  return shared;
}

NodePointer root_of(const Pass& pass) {
  Passes& all = passes();
  const std::lock_guard lock(all.mutex);
  const auto found = std::ranges::find(all.roots, pass.number, &Root::pass);
  return found == all.roots.end() ? nullptr : found->node.lock();
}

// Before the failing one, the newest first. Those that left what does not lead to their inputs come
// last: what they freed of a graph that they share is not known.
std::vector<Pass> earlier_passes() {
  Passes& all = passes();
  const std::lock_guard lock(all.mutex);
  std::vector<Pass> known(all.newest.rbegin(), all.newest.rend());
  if (!known.empty()) known.erase(known.begin());
  std::ranges::stable_partition(known, [](const Pass& pass) { return !pass.leaves.beside; });
  return known;
}

// Nodes the roots share with an earlier pass; its graph is known while its root lives.
Shared shared_with(const Pass& pass, const NodePointer& root, const edge_list& roots) {
  if (root != nullptr) {
    std::unordered_set<const Node*> first;
    walk_graph({torch::autograd::Edge(root, 0)},
               [&](Node& node, const Node*) { first.insert(&node); });
    return shared_nodes(roots, [&](const Node& node) { return first.contains(&node); });
  }
  return shared_nodes(roots, [&](const Node& node) {
    return node.thread_id() == pass.key.thread && node.sequence_nr() <= pass.key.sequence;
  });
}
}  // namespace

GraphShape graph_shape(Capture& capture, const edge_list& roots) {
  GraphShape shape;
  const std::int64_t cycle = capture.marker().cycle();
  const std::uint64_t thread = at::RecordFunction::currentThreadId();
  const CycleMarks& marks = ddpscope::marks();
  const Node* entry = nullptr;
  walk_graph(roots, [&](Node& node, const Node* consumer) {
    if (node.num_outputs() == 0) {
      const auto* leaf = dynamic_cast<AccumulateGrad*>(&node);
      if (leaf == nullptr || !leaf->variable.defined()) return;
      shape.leaves.push_back(capture.announce(leaf->variable));
      const bool is_known = consumer != nullptr && consumer->thread_id() == thread;
      if (is_known && marks.cycles_back(consumer->sequence_nr(), cycle) > 0) {
        shape.old_leaves.push_back(shape.leaves.back());
      }
      return;
    }
    ++shape.nodes;
    if (node.thread_id() != thread) return;
    const std::int64_t back = marks.cycles_back(node.sequence_nr(), cycle);
    if (back > 0 && entry == nullptr) entry = consumer != nullptr ? consumer : &node;
    if (back <= shape.cycles_back) return;
    shape.cycles_back = back;
    shape.oldest = node.name();
  });
  grows = shape.cycles_back > last_cycles_back && shape.cycles_back >= 2;
  last_cycles_back = shape.cycles_back;
  if (entry == nullptr) return shape;
  shape.entry = entry->name();
  if (const auto birth = capture.nodes().find(key_of(*entry))) shape.entered = birth->by.unpacked();
  return shape;
}

bool graph_grows() noexcept { return grows; }

std::int64_t roots_alive(const Capture& capture) {
  const std::int64_t step = capture.marker().now().step;
  Passes& all = passes();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.roots, [&](const Root& root) {
    return root.pass + kRoots < all.begun || root.node.expired();
  });
  return std::ranges::count_if(all.roots, [step](const Root& root) { return root.step < step; });
}

void remember_roots(Capture& capture, const edge_list& roots, Leaves leaves) {
  if (roots.empty() || roots.front().function == nullptr) return;
  const NodePointer& root = roots.front().function;
  Pass pass{.key = key_of(*root), .by = doing_now(capture), .leaves = leaves};
  freed_node.reset();
  Passes& all = passes();
  const std::lock_guard lock(all.mutex);
  pass.number = ++all.begun;
  all.roots.push_back({.node = WeakNodePointer(root), .pass = pass.number, .step = pass.by.step});
  all.newest.push_back(pass);
  if (all.newest.size() > kRoots + 1) all.newest.pop_front();
}

void backward_ended(const Capture& capture) {
  marks().mark(capture.marker().cycle(), at::sequence_number::peek());
}

void note_freed(const Node& node) {
  freed_node = key_of(node);
  freed_name() = node.name();
}

void tell_freed(Capture& capture, const edge_list& roots) {
  if (!freed_node.has_value()) return;
  const NodeKey freed = *freed_node;
  freed_node.reset();
  GraphFreedEvent event{.at = capture.marker().now(),
                        .node = freed_name(),
                        .second = doing_now(capture),
                        .rested = capture.marker().has_rested()};
  const std::vector<Pass> known = earlier_passes();
  std::size_t asked = 0;
  for (auto pass = known.begin(); pass != known.end() && asked < kFirstPasses; ++pass, ++asked) {
    const bool older = pass->key.thread != freed.thread || pass->key.sequence < freed.sequence;
    if (pass->leaves.whole || older) continue;
    const NodePointer root = root_of(*pass);
    const Shared shared = shared_with(*pass, root, roots);
    if (shared.nodes == 0) continue;
    event.first = pass->by;
    event.established = root != nullptr;
    event.shared_nodes = shared.nodes;
    event.shared = shared.newest_name;
    if (const auto birth = capture.nodes().find(shared.newest))
      event.shared_made = birth->by.unpacked();
    break;
  }
  capture.put_large(std::move(event));
}

}  // namespace ddpscope
