#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// autograd-ready-twice; docs/checks/autograd-ready-twice.md
class AutogradReadyTwice final : public Check {
 public:
  void on_backward(const BackwardEvent&, const RunState&, Findings&) override { forget(); }

  void on_nested_backward(const NestedBackwardEvent& event, const RunState&, Findings&) override {
    nested_ = event;
  }

  void on_gradient(const GradientEvent& event, const RunState&, Findings&) override {
    if (!event.defined) return;
    Fired& fired = fired_[{event.at.thread, event.tensor}];
    ++fired.count;
    fired.depth = std::max(fired.depth, event.depth);
    fired.hooked = fired.hooked || event.hooked;
  }

  void on_error(const ErrorEvent& event, const RunState& state, Findings& findings) override {
    const bool says_so = event.message.find("marked as ready twice") != std::string::npos ||
                         event.message.find("mark a variable ready only once") != std::string::npos;
    if (says_so) judge(/*thrown=*/true, state, findings);
  }

  void on_backward_end(const BackwardEndEvent&, const RunState& state,
                       Findings& findings) override {
    judge(/*thrown=*/false, state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { forget(); }

 private:
  struct Fired {
    std::int64_t count = 0;
    int depth = 1;
    bool hooked = false;
  };

  void forget() {
    fired_.clear();
    nested_.reset();
  }

  // Two gradients of one depth are those of two threads, unless LibTorch says otherwise.
  void judge(bool thrown, const RunState& state, Findings& findings) {
    std::vector<const TensorState*> twice;
    Fired most;
    for (const auto& [key, fired] : fired_) {
      if (fired.count < 2 || !(thrown || (fired.hooked && fired.depth > 1))) continue;
      const TensorState* tensor = state.tensor(key.second);
      if (tensor == nullptr) continue;
      twice.push_back(tensor);
      most.count = std::max(most.count, fired.count);
      most.depth = std::max(most.depth, fired.depth);
    }
    for (const TensorGroup& group : collapse(state, twice)) {
      findings.push_back(describe(group, most, state));
      const bool averages = thrown || state.world_size() > 1;
      findings.back().severity = averages ? Severity::kError : Severity::kNote;
    }
    forget();
  }

  Finding describe(const TensorGroup& group, const Fired& fired, const RunState& state) const {
    const bool nested = fired.depth > 1;
    const std::string node = nested && nested_.has_value() ? nested_->node : "";
    Finding finding = about(group);
    finding.op = "AccumulateGrad";
    finding.what = fmt::format("received {} gradients in one backward", fired.count);
    if (group.tensors.size() > 1) {
      finding.what = fmt::format(
          "{} {}", counted(static_cast<std::int64_t>(group.tensors.size()), "parameter"),
          finding.what);
    }
    finding.why = nested ? why_nested(node, state)
                         : "the parameter is marked ready a second time in the same pass";
    finding.why += "; hooks that average gradients expect one for each parameter";
    finding.fixes = {{"use a checkpoint that does not call backward inside backward", kLikely},
                     {"call forward once for each backward", kLikely},
                     {"average after the outermost backward has ended", kSafe}};
    finding.facts.push_back({fact::kCause, nested ? "nested_backward" : "second_use"});
    finding.facts.push_back({fact::kParameter, tensor_path(*group.tensors.front())});
    finding.facts.push_back({fact::kFiredCount, fired.count});
    finding.facts.push_back({fact::kDepthCount, static_cast<std::int64_t>(fired.depth)});
    finding.facts.push_back({fact::kLaunchingNode, node});
    return finding;
  }

  std::string why_nested(const std::string& node, const RunState& state) const {
    std::string text = "a nested backward was started";
    if (!node.empty()) text += " by " + node;
    const ModulePlace* place = nested_.has_value() ? state.place_of(nested_->module) : nullptr;
    if (place != nullptr && !place->path.empty()) text += " in " + place->path;
    return text;
  }

  std::map<std::pair<std::uint64_t, TensorId>, Fired> fired_;  // by thread, in this pass
  std::optional<NestedBackwardEvent> nested_;
};
}  // namespace

std::unique_ptr<Check> make_autograd_ready_twice() {
  return std::make_unique<AutogradReadyTwice>();
}

}  // namespace ddpscope
