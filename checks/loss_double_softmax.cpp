#include <fmt/format.h>

#include <map>
#include <memory>

#include "checks/check.h"
#include "checks/loss_ops.h"
#include "checks/site_text.h"
#include "checks/softmax_pattern.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using Record = OpTrace::Record;
constexpr int kSoftmaxSteps = 2;
constexpr std::size_t kMaxInputs = 1024;  // of losses without a backward

/// Behind views and limits of its values.
const Record* producer_of(const Record& loss, const OpTrace& trace) {
  const Record* made = maker_behind_views(trace, loss.inputs.front());
  const bool is_limit = made != nullptr && made->op.starts_with("aten::clamp");
  return is_limit && !made->inputs.empty() ? maker_behind_views(trace, made->inputs.front()) : made;
}

// The program may have called either: of it both run the same operators.
std::string reader_text(const SoftmaxPattern& pattern, const std::string& used) {
  if (pattern.producer == "log_softmax" && used == "cross_entropy") {
    return "log_softmax, of cross_entropy or before nll_loss";
  }
  return used.starts_with("nll_loss") ? "nll_loss" : used;
}

/// loss-double-softmax; docs/checks/loss-double-softmax.md
class LossDoubleSoftmax final : public Check {
 public:
  void on_loss_input(const LossInputEvent& event, const RunState&, Findings&) override {
    if (inputs_.size() >= kMaxInputs) inputs_.clear();
    inputs_[event.input] = event;
  }

  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override {
    if (!event.surveyed || !event.accumulates) return;
    for (const Record& loss : state.trace().records()) {
      if (!normalizes(loss.op) || !loss.grad_mode || loss.inputs.empty()) continue;
      const Record* producer = producer_of(loss, state.trace());
      if (producer == nullptr || producer == &loss) continue;
      const SoftmaxPattern* pattern = pattern_of(*producer, loss, state.trace());
      if (pattern == nullptr || is_below_zero(*pattern, loss.inputs.front())) continue;
      if (!is_repeated(*pattern, *producer, event.at.step)) continue;
      findings.push_back(describe(*pattern, *producer, loss, state));
    }
    inputs_.clear();
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    seen_.clear();
    inputs_.clear();
  }

 private:
  struct Seen {
    std::int64_t last_step = -1;
    int steps = 0;
  };

  /// Logits that may be log-probabilities, as a mean of several is.
  bool is_below_zero(const SoftmaxPattern& pattern, TensorId input) const {
    const auto known = inputs_.find(input);
    return pattern.takes_logits() && known != inputs_.end() && known->second.maximum <= 0;
  }

  bool is_repeated(const SoftmaxPattern& pattern, const Record& producer, std::int64_t step) {
    Seen& seen = seen_[{std::string(pattern.name), producer.path}];
    if (seen.last_step == step) return false;
    seen.last_step = step;
    return ++seen.steps >= kSoftmaxSteps;
  }

  Finding describe(const SoftmaxPattern& pattern, const Record& producer, const Record& loss,
                   const RunState& state) const {
    using enum Applicability;
    const std::string made = base_name(producer.op);
    std::string used = base_name(loss.op);
    if (is_cross_entropy(loss, state.trace())) used = "cross_entropy";
    Finding finding = finding_at(producer, state);
    finding.severity = pattern.severity;
    finding.op = "aten::" + made;
    finding.what =
        fmt::format("its output enters {}, {}", reader_text(pattern, used), pattern.again);
    finding.why = pattern.why;
    if (pattern.is_one_too_many()) {
      finding.fixes.push_back(
          {fmt::format("return logits from forward and use {} outside of training", made),
           kLikely});
    }
    finding.fixes.push_back({std::string(pattern.fix), kLikely});
    finding.facts = {{fact::kPattern, std::string(pattern.name)},
                     {fact::kProducerOp, "aten::" + made},
                     {fact::kLossOp, "aten::" + used}};
    add_values(loss.inputs.front(), finding);
    add_site("called", loss.stack, state, finding);
    return finding;
  }

  void add_values(TensorId input, Finding& finding) const {
    const auto known = inputs_.find(input);
    if (known == inputs_.end()) return;
    const LossInputEvent& values = known->second;
    finding.why = fmt::format("its values lie in [{:.3g}, {:.3g}]; {}", values.minimum,
                              values.maximum, finding.why);
    finding.facts.push_back({fact::kInputMin, values.minimum});
    finding.facts.push_back({fact::kInputMax, values.maximum});
  }

  std::map<std::pair<std::string, std::string>, Seen> seen_;
  std::map<TensorId, LossInputEvent> inputs_;
};
}  // namespace

std::unique_ptr<Check> make_loss_double_softmax() { return std::make_unique<LossDoubleSoftmax>(); }

}  // namespace ddpscope
