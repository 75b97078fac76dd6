#include "hooks/nonfinite_search.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>

#include "hooks/data_makers.h"
#include "hooks/finite_ops.h"
#include "hooks/graph_walk.h"
#include "hooks/made_in.h"
#include "hooks/norm_exchange.h"
#include "hooks/norm_nodes.h"
#include "hooks/value_reader.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
using torch::autograd::AccumulateGrad;
using torch::autograd::Node;
using torch::autograd::variable_list;

constexpr std::size_t kMaxSeen = 1 << 16;
constexpr int kMaxNested = 200;

const torch::autograd::AutogradMeta* meta_of(const at::Tensor& tensor) {
  return torch::autograd::impl::get_autograd_meta(tensor);
}

// Products and casts overflow at 65504.
bool returns_half(const Node& node) {
  return node.num_inputs() > 0 && node.input_metadata(0).options().dtype() == at::kHalf;
}

// NaN is what the mean of it is, not what it holds.
bool returns_no_elements(const Node& node) {
  if (node.num_inputs() != 1 || node.input_metadata(0).is_nested_tensor()) return false;
  const auto sizes = c10::asIntArrayRefUnchecked(node.input_metadata(0).shape_as_dim_vector());
  return c10::multiply_integers(sizes) == 0;
}

// An operand that needs no gradient has no edge.
bool has_lost_operand(const Node& node) {
  const auto is_lost = [](const torch::autograd::Edge& edge) { return edge.function == nullptr; };
  return keeps_no_operand(node.name()) && std::ranges::any_of(node.next_edges(), is_lost);
}

bool reads_no_elements(const Node& node) {
  const auto& edges = node.next_edges();
  const auto is_empty = [](const torch::autograd::Edge& edge) {
    return edge.function != nullptr && returns_no_elements(*edge.function);
  };
  return !edges.empty() && std::ranges::all_of(edges, is_empty);
}
}  // namespace

NonfiniteSearch::NonfiniteSearch(Capture& capture) : capture_(capture) { here_ = this; }
NonfiniteSearch::~NonfiniteSearch() { here_ = nullptr; }

void NonfiniteSearch::begin_at(const variable_list& roots) { remember_writers(edges_of(roots)); }

void NonfiniteSearch::begin_here() {
  start_ = torch::autograd::get_current_node();
  if (start_ != nullptr) remember_writers({{start_, 0}});
}

void NonfiniteSearch::remember_writers(const torch::autograd::edge_list& roots) {
  walk_graph(roots, [&](const Node& node, const Node*) {
    if (writes_through_view(node)) writers_[&node] = operator_of(node);
  });
}

std::string NonfiniteSearch::op_of(const Node& node) const {
  const auto writer = writers_.find(&node);
  return writer != writers_.end() ? writer->second : operator_of(node);
}

void NonfiniteSearch::see(const at::Tensor& saved) {
  const auto reader = torch::autograd::get_current_node();
  const auto [values, min] = numbers_in(saved);
  if (reader == nullptr || values.elements == 0 || reads_.size() >= kMaxSeen) return;
  const auto* meta = meta_of(saved);
  const Node* maker = meta == nullptr ? nullptr : meta->grad_fn_.get();
  if (maker != nullptr) {
    Result& result = results_[{maker, meta->output_nr_}];
    result.values = values;
    if (result.output.id == 0) result.output = describe(saved, capture_.id_of(saved));
  }
  if (maker == reader.get()) return;
  if (maker == nullptr && is_statistic(saved, *reader)) return;
  if (maker == nullptr && !values.is_finite() && keeps_infinities(reader->name())) return;
  Reads& reads = reads_[reader.get()];
  ++reads.tensors;
  add_to(reads.values, values);
  if (min.has_value()) reads.min = std::min(reads.min.value_or(*min), *min);
  if (maker == nullptr && !values.is_finite() && reads.source == 0) {
    reads.source = capture_.announce(saved);
    reads.source_values = values;
    reads.source_dtype = dtype_name(saved.scalar_type());
  }
}

const NonfiniteSearch::Result* NonfiniteSearch::result_of(const Node& node) const {
  const Result* known = nullptr;
  for (auto at = results_.lower_bound({&node, 0}); at != results_.end() && at->first.first == &node;
       ++at) {
    if (known == nullptr || !at->second.values.is_finite()) known = &at->second;
  }
  return known;
}

const NonfiniteSearch::Reads* NonfiniteSearch::reads_of(const Node& node) const {
  const auto found = reads_.find(&node);
  return found == reads_.end() ? nullptr : &found->second;
}

bool NonfiniteSearch::reads_bad_leaf(const Node& node, NonfiniteOutputEvent& event) const {
  const Reads* reads = reads_of(node);
  if (reads != nullptr && reads->source != 0) {
    event.source = reads->source;
    event.source_values = reads->source_values;
    event.source_dtype = reads->source_dtype;
    return true;
  }
  return std::ranges::any_of(node.next_edges(), [&](const torch::autograd::Edge& edge) {
    return edge.function != nullptr && is_bad_parameter(*edge.function, event);
  });
}

bool NonfiniteSearch::is_bad_parameter(const Node& node, NonfiniteOutputEvent& event) const {
  const auto* leaf = dynamic_cast<const AccumulateGrad*>(&node);
  if (leaf == nullptr || !leaf->variable.defined()) return false;
  const ValueRange values = range_of(leaf->variable);
  if (values.is_finite()) return false;
  event.source = capture_.announce(leaf->variable);
  event.source_values = values;
  event.source_dtype = dtype_name(leaf->variable.scalar_type());
  return true;
}

// Whether the operator, given what it read, can have returned what is not finite.
bool NonfiniteSearch::can_make(const Node& node) const {
  const std::string name = node.name();
  if (reads_no_elements(node)) return is_average(name);
  const Reads* reads = reads_of(node);
  const bool in_half = returns_half(node);
  switch (makes_nonfinite(name)) {
    case Makes::kNothing:
      return in_half && overflows_in_half(name);
    case Makes::kByOverflow:
      if (reads != nullptr && is_mean_in_range(name, reads->values.absmax)) return false;
      return in_half || (reads != nullptr && overflows_in_float(reads->values.absmax));
    case Makes::kByDomain:
      if (!in_half && reads != nullptr && divides_safely(name, reads->min.value_or(0)))
        return false;
      break;
  }
  return !(is_logarithm(name) && reads != nullptr && reads->min.value_or(0) > 0);
}

// What it read proves that: of a quotient that saved its divisor alone, a zero.
bool NonfiniteSearch::has_made(const Node& node) const {
  const Reads* reads = reads_of(node);
  if (reads == nullptr || !reads->min || !reads->values.is_finite()) return false;
  if (leaves_domain(node.name(), *reads->min, reads->values.absmax)) return true;
  const bool are_zeros = *reads->min == 0 && (reads->tensors == 1 || reads->values.absmax == 0);
  return are_zeros && node.name().starts_with("Div");
}

// Of a node whose result nobody saved: certain where something that is not finite lies behind it.
NonfiniteSearch::Suspicion NonfiniteSearch::suspicion_of(const Node& node, int depth) {
  using enum Suspicion;
  if (depth > kMaxNested) return kNone;
  const auto [known, is_new] = suspicions_.try_emplace(&node, kNone);
  if (!is_new) return known->second;
  NonfiniteOutputEvent unused;
  Suspicion suspicion = has_lost_operand(node) ? kUnseen : kNone;
  if (can_make(node)) suspicion = kPossible;
  if (has_made(node)) suspicion = kProven;
  if (reads_bad_leaf(node, unused)) suspicion = kCertain;
  for (const auto& edge : node.next_edges()) {
    if (suspicion == kCertain) break;
    if (edge.function == nullptr || edge.function->num_outputs() == 0) continue;
    if (returns_no_elements(*edge.function)) continue;
    const Result* result = result_of(*edge.function);
    if (result == nullptr) {
      suspicion = std::max(suspicion, suspicion_of(*edge.function, depth + 1));
    } else if (!result->values.is_finite()) {
      suspicion = kCertain;
    }
  }
  return suspicions_[&node] = suspicion;
}

// The node before this one whose result was not finite first; null: there is none. Where this one
// divided by 0, what before it only can have done so has not.
const NonfiniteSearch::Node* NonfiniteSearch::next_from(const Node& node) {
  const Node* best = nullptr;
  auto best_rank = std::pair(has_made(node) ? Suspicion::kProven : Suspicion::kNone, false);
  for (const auto& edge : node.next_edges()) {
    const Node* parent = edge.function.get();
    if (parent == nullptr || parent->num_outputs() == 0 || returns_no_elements(*parent)) continue;
    const Result* result = result_of(*parent);
    if (result != nullptr && result->values.is_finite()) continue;
    const bool is_known = result != nullptr;
    const auto rank =
        std::pair(is_known ? Suspicion::kCertain : suspicion_of(*parent, 0), is_known);
    if (rank.first == Suspicion::kNone || rank < best_rank) continue;
    const bool is_earlier = best == nullptr || parent->sequence_nr() < best->sequence_nr();
    if (rank == best_rank && !is_earlier) continue;
    best = parent;
    best_rank = rank;
  }
  return best;
}

// Whether its result alone tells that what it read was finite.
bool NonfiniteSearch::was_zero(const Node& node) const {
  const Result* result = result_of(node);
  return result != nullptr && result->values.nan_count == 0 && result->values.inf_count > 0 &&
         inverts_zero(node.name());
}

void NonfiniteSearch::describe_origin(const Node& node, NonfiniteOutputEvent& event) const {
  event.op = op_of(node);
  if (const Result* result = result_of(node)) {
    event.output = result->output;
    event.values = result->values;
  } else if (node.num_inputs() > 0 && !node.input_metadata(0).is_nested_tensor()) {
    event.output.dtype = dtype_name(c10::typeMetaToScalarType(node.input_metadata(0).dtype()));
    event.output.elements = c10::multiply_integers(
        c10::asIntArrayRefUnchecked(node.input_metadata(0).shape_as_dim_vector()));
  }
  if (const Reads* reads = reads_of(node)) {
    event.inputs_known = true;
    event.inputs = reads->values;
  }
  event.inputs_known |= reads_no_elements(node);
  event.lost_operand = has_lost_operand(node);
  // It read what other ranks sent, too.
  if (event.op == kSyncBatchNorm) {
    event.inputs.nan_count += NormExchange::spoilt_channels(event.at.step);
  }
}

// That of the first root that is not finite; null: there is none.
const NonfiniteSearch::Node* NonfiniteSearch::start_of(const variable_list& roots) {
  if (start_ != nullptr) return start_.get();
  for (const at::Tensor& root : roots) {
    const auto* meta = root.defined() ? meta_of(root) : nullptr;
    if (meta == nullptr || meta->grad_fn_ == nullptr || range_of(root).is_finite()) continue;
    const Node* node = meta->grad_fn_.get();
    results_[{node, meta->output_nr_}] = {range_of(root), describe(root, capture_.id_of(root))};
    return node;
  }
  return nullptr;
}

void NonfiniteSearch::tell(const variable_list& roots) {
  const Node* node = start_of(roots);
  if (node == nullptr) return;
  NonfiniteOutputEvent event{.at = capture_.marker().now()};
  std::vector<const Node*> consumers;
  std::vector<const Node*> gone;  // behind the origin, which could be it
  while (!reads_bad_leaf(*node, event) && !was_zero(*node)) {
    const Node* next = next_from(*node);
    if (next == nullptr) break;
    if (result_of(*next) != nullptr) {
      gone.clear();
    } else if (can_make(*node)) {
      gone.push_back(node);
    }
    consumers.push_back(node);
    node = next;
  }
  // Of what is gone a cast is the least likely.
  if (!gone.empty() && is_cast(node->name()) && reads_of(*node) == nullptr) {
    std::swap(node, gone.back());
    consumers.erase(std::ranges::find(consumers, node), consumers.end());
  }
  // A mask of -Inf is right: of a row that holds nothing else softmax makes NaN.
  const bool is_lost = event.source == 0 && has_lost_operand(*node);
  if (is_lost && !consumers.empty() && is_softmax(consumers.back()->name())) {
    node = consumers.back();
    consumers.pop_back();
  }
  describe_origin(*node, event);
  for (const Node* one : gone) event.candidates.push_back(op_of(*one));
  for (const auto& [key, result] : results_) event.victims += !result.values.is_finite();
  event.victims = std::max<std::int64_t>(event.victims - (event.output.id != 0), 0);
  std::ranges::reverse(consumers);
  event.was_zero = was_zero(*node);
  event.made = birth_of(capture_, *node);
  event.place = made_in(capture_, *node, consumers);
  DataMakers::explain(capture_, event);
  capture_.put_large(std::move(event));
}

}  // namespace ddpscope
