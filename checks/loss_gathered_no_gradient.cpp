#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/gathered_path.h"
#include "checks/loss_ops.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr int kGatherSteps = 2;
constexpr std::size_t kMaxGathers = 64;  // of one step

struct Gather {
  std::int64_t step = 0;
  std::int64_t seq = 0;
  std::int64_t ranks = 0;
  std::int64_t rows = 0;  ///< of this rank
  std::vector<TensorId> tensors;
};

Finding describe_gather(const Gather& gather, const OpTrace::Record& met, const RunState& state) {
  Finding finding = finding_at(met, state);
  finding.severity = Severity::kWarning;
  finding.what = fmt::format(
      "{} gathered from {} ranks enter the loss without a gradient; this rank's {} were not put "
      "back",
      counted(gather.rows * gather.ranks, "row"), gather.ranks, gather.rows);
  finding.why = fmt::format(
      "all-gather #{} is outside of autograd: through these rows the loss trains nothing, and of "
      "the terms between ranks the gradient is lost",
      gather.seq);
  finding.fixes = {
      {"put this rank's own tensor in the place of its gathered rows: `all[rank] = features`",
       kLikely},
      {"gather with a torch::autograd::Function whose backward sums over the ranks", kLikely},
      {"rows that are to be constant: suppress this finding with the reason", kNeedsDecision}};
  finding.facts = {{fact::kCollectiveSeq, gather.seq},
                   {fact::kRowsCount, gather.rows * gather.ranks},
                   {fact::kLocalRowsCount, gather.rows}};
  return finding;
}

/// loss-gathered-no-gradient; docs/checks/loss-gathered-no-gradient.md
class LossGatheredNoGradient final : public Check {
 public:
  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    if (event.gathered.empty() || event.group_size < 2) return;
    if (!gathers_.empty() && gathers_.front().step != event.at.step) gathers_.clear();
    if (gathers_.size() >= kMaxGathers) return;
    gathers_.push_back({.step = event.at.step,
                        .seq = static_cast<std::int64_t>(event.seq),
                        .ranks = event.group_size,
                        .rows = event.gathered_rows,
                        .tensors = event.gathered});
  }

  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override {
    if (!event.surveyed || !event.accumulates || gathers_.empty()) return;
    const auto of_loss = records_before(state.trace(), event.roots, kAnyDistance);
    for (const Gather& gather : gathers_) {
      if (gather.step != event.at.step) continue;
      const OpTrace::Record* met = met_by_gathered(gather.tensors, state);
      if (met == nullptr || std::ranges::find(of_loss, met) == of_loss.end()) continue;
      Seen& seen = seen_[{met->op, met->path}];
      if (seen.last_step == event.at.step) continue;
      seen.last_step = event.at.step;
      if (++seen.steps >= kGatherSteps) findings.push_back(describe_gather(gather, *met, state));
    }
    gathers_.clear();
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    gathers_.clear();
    seen_.clear();
  }

 private:
  struct Seen {
    std::int64_t last_step = -1;
    int steps = 0;
  };
  std::vector<Gather> gathers_;
  std::map<std::pair<std::string, std::string>, Seen> seen_;  ///< by operator and module
};
}  // namespace

std::unique_ptr<Check> make_loss_gathered_no_gradient() {
  return std::make_unique<LossGatheredNoGradient>();
}

}  // namespace ddpscope
