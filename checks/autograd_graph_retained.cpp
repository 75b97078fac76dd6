#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/kept_parts.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kRetainedCycles = 5;  // beyond the windows of truncated back-propagation
constexpr std::int64_t kManyCycles = 8;
constexpr std::int64_t kRetainedRoots = 8;
constexpr int kGrowingCycles = 8;
constexpr int kGrowthsAmongThreads = 5;

/// autograd-graph-retained; docs/checks/autograd-graph-retained.md
class AutogradGraphRetained final : public Check {
 public:
  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override {
    if (event.walked) judge_reached(event, state, findings);
    if (event.at.cycle != roots_cycle_) judge_kept(event, state, findings);
    if (kept_told_) return;
    for (Finding& finding : parts_.on(event, state)) findings.push_back(std::move(finding));
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    walks_.clear();
    growing_cycles_ = 0;
  }

 private:
  struct Walk {
    std::int64_t cycles_back = 0;
    std::int64_t cycle = 0;
    std::int64_t nodes = 0;
    int growths = 0;  ///< in a row
  };

  void judge_reached(const BackwardEvent& event, const RunState& state, Findings& findings) {
    const GraphShape& graph = event.graph;
    Walk& last = walks_[event.at.thread];
    const bool deeper = event.at.cycle > last.cycle && graph.cycles_back > last.cycles_back;
    const bool grew = deeper && last.cycle > 0 && last.cycles_back > 0;
    const int growths = grew ? last.growths + 1 : 0;
    // Other threads may end many cycles between the forward of one and its backward.
    const bool is_reached =
        state.several_threads_train()
            ? graph.cycles_back >= kManyCycles && growths >= kGrowthsAmongThreads
            : graph.cycles_back >= kManyCycles || (graph.cycles_back >= kRetainedCycles && grew);
    if (is_reached) findings.push_back(reached(event, last, state));
    const bool other_root = event.at.cycle == last.cycle && graph.cycles_back < last.cycles_back;
    if (!other_root) last = {graph.cycles_back, event.at.cycle, graph.nodes, growths};
  }

  static Finding reached(const BackwardEvent& event, const Walk& before, const RunState& state) {
    const GraphShape& graph = event.graph;
    // Of the same cycle it is another root's, as of a grad() before the loss.
    const bool can_compare = before.cycle > 0 && before.cycle < event.at.cycle;
    const std::int64_t per_step =
        can_compare ? (graph.nodes - before.nodes) / (event.at.cycle - before.cycle) : 0;
    Finding finding = about(event, "reached");
    place_at(graph.entered.value_or(Doing{}), state, finding);
    finding.op = op_of_node(graph.entry);
    const StackId stack = graph.entered.has_value() ? graph.entered->stack : 0;
    const std::string line = add_site("used", stack, state, finding);
    finding.what = fmt::format("the graph of this loss reaches back {}, {}{}",
                               counted(graph.cycles_back, "step"), counted(graph.nodes, "node"),
                               can_compare ? fmt::format(", {:+} per step", per_step) : "");
    finding.why = fmt::format("what enters {}{} has history from {}", finding.op,
                              line.empty() ? "" : fmt::format(" ({})", line),
                              counted(graph.cycles_back, "step") + " ago");
    finding.facts.push_back({fact::kDepthSteps, graph.cycles_back});
    finding.facts.push_back({fact::kNodesCount, graph.nodes});
    if (can_compare) finding.facts.push_back({fact::kNodesPerStepCount, per_step});
    finding.facts.push_back({fact::kOldestOp, op_of_node(graph.oldest)});
    finding.facts.push_back({fact::kEntryOp, finding.op});
    return finding;
  }

  void judge_kept(const BackwardEvent& event, const RunState& state, Findings& findings) {
    roots_cycle_ = event.at.cycle;
    growing_cycles_ = event.roots_alive > roots_alive_ ? growing_cycles_ + 1 : 0;
    roots_alive_ = event.roots_alive;
    if (growing_cycles_ < kGrowingCycles || roots_alive_ < kRetainedRoots) return;
    Finding finding = about(event, "kept");
    if (const ModelState* model = state.first_model()) finding.model = model->label;
    finding.what =
        fmt::format("the graphs of {} earlier losses are still alive, {}", roots_alive_,
                    event.at.cycle == event.at.step ? "one more each step"
                                                    : "more after each turn of all optimizers");
    finding.why = "a tensor with history is kept, in a list or a running total";
    findings.push_back(std::move(finding));
    growing_cycles_ = 0;
    kept_told_ = true;
  }

  static Finding about(const BackwardEvent& event, const std::string& cause) {
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = event.at.step;
    finding.fixes = {{"h = h.detach() at the step boundary", kLikely},
                     {"add numbers, not tensors: total += loss.item<double>()", kLikely}};
    if (cause == "kept") std::swap(finding.fixes[0], finding.fixes[1]);
    if (event.keep_graph) {
      finding.fixes.push_back(
          {"remove retain_graph = true if it was added to quiet an error", kNeedsDecision});
    }
    finding.facts = {{fact::kCause, cause},
                     {fact::kRootsAliveCount, event.roots_alive},
                     {fact::kKeepGraph, event.keep_graph}};
    return finding;
  }

  std::map<std::uint64_t, Walk> walks_;
  std::int64_t roots_cycle_ = -1;
  std::int64_t roots_alive_ = 0;
  int growing_cycles_ = 0;
  bool kept_told_ = false;
  KeptParts parts_;
};
}  // namespace

std::unique_ptr<Check> make_autograd_graph_retained() {
  return std::make_unique<AutogradGraphRetained>();
}

}  // namespace ddpscope
