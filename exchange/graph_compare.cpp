#include "exchange/graph_compare.h"

#include <algorithm>
#include <map>
#include <vector>

namespace ddpscope {
namespace {
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostParts = 16;
// A branch that is taken by chance is hardly the same on a rank, and another one on others, in so
// many of them.
constexpr std::size_t kLeastSteps = 4;
constexpr std::int64_t kLeastSpan = 10;  // of layers in eval mode, in steps
constexpr char kBegin[] = "\n";          // of what may be empty
constexpr char kOperator = 'o';
constexpr char kMode = 'm';

using Graphs = std::map<std::int64_t, TrainedGraph>;  // by step

void append(std::string& text, char kind, const TrainedGraph::Parts& parts) {
  for (const auto& [module, what] : parts) text += kind + module + '\t' + what + '\n';
}

Graphs graphs_of(const RingReader& ring) {
  Graphs graphs;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind == BlobKind::kGraph) graphs[blob.step] = decode_graph(blob.bytes);
  }
  return graphs;
}

/// Those of all ranks.
std::vector<std::int64_t> common_steps(const std::vector<Graphs>& ranks, bool surveyed) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, graph] : ranks.front()) {
    const auto has_it = [step = step, surveyed](const Graphs& graphs) {
      const auto found = graphs.find(step);
      return found != graphs.end() && (!surveyed || !found->second.operators.empty());
    };
    if (std::ranges::all_of(ranks, has_it)) steps.push_back(step);
  }
  return steps;
}

/// What some ranks alone have in each of these steps; empty where a rank has other parts in some.
std::vector<TrainedOnSome> on_some(const std::vector<Graphs>& ranks, const RingList& rings,
                                   const std::vector<std::int64_t>& steps,
                                   TrainedGraph::Parts TrainedGraph::*parts) {
  std::map<std::pair<std::string, std::string>, RankList> ranks_of;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const TrainedGraph::Parts& first = ranks[i].at(steps.front()).*parts;
    for (const std::int64_t step : steps) {
      if (ranks[i].at(step).*parts != first) return {};
    }
    for (const auto& part : first) ranks_of[part].push_back(rings[i]->head().rank);
  }
  std::vector<TrainedOnSome> found;
  for (auto& [part, on] : ranks_of) {
    if (on.size() == ranks.size() || found.size() == kMostParts) continue;
    found.push_back({.module = part.first, .op = part.second, .ranks = std::move(on)});
  }
  return found;
}
}  // namespace

std::string encode(const TrainedGraph& graph) {
  std::string text = kBegin;
  append(text, kOperator, graph.operators);
  if (text.size() > kMostBytes) {
    TrainedGraph::Parts names;
    for (const auto& [module, what] : graph.operators) names.insert({"", what});
    text = kBegin;
    append(text, kOperator, names);
  }
  append(text, kMode, graph.in_eval);
  return text.size() > 2 * kMostBytes ? std::string() : text;
}

TrainedGraph decode_graph(std::string_view bytes) {
  TrainedGraph graph;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || tab == 0) continue;
    auto& parts = line.front() == kOperator ? graph.operators : graph.in_eval;
    parts.insert({std::string(line.substr(1, tab - 1)), std::string(line.substr(tab + 1))});
  }
  return graph;
}

void compare_graphs(const RingList& rings, Cohort& cohort) {
  if (rings.size() < 2 || rings.size() < cohort.ranks.size() || cohort.lists_differ) return;
  std::vector<Graphs> ranks;
  for (const RingReader* ring : rings) ranks.push_back(graphs_of(*ring));
  const auto differing = [&](const std::vector<std::int64_t>& steps,
                             TrainedGraph::Parts TrainedGraph::*parts) -> TrainingDiffers {
    if (steps.size() < kLeastSteps) return {};
    return {.step = steps.front(),
            .last_step = steps.back(),
            .steps = static_cast<std::int64_t>(steps.size()),
            .parts = on_some(ranks, rings, steps, parts)};
  };
  cohort.operators = differing(common_steps(ranks, /*surveyed=*/true), &TrainedGraph::operators);
  // A mode is looked at when a step ends: that of the first may be the one before the training.
  std::vector<std::int64_t> steps = common_steps(ranks, /*surveyed=*/false);
  if (!steps.empty()) steps.erase(steps.begin());
  if (steps.empty() || steps.back() - steps.front() < kLeastSpan) return;
  cohort.modes = differing(steps, &TrainedGraph::in_eval);
}

}  // namespace ddpscope
