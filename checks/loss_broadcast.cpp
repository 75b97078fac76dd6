#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_set>

#include "checks/broadcast_pair.h"
#include "checks/check.h"

namespace ddpscope {
namespace {
constexpr int kBroadcastSteps = 2;
constexpr int kMaxDistance = 7;  // the last 8 operators before the root

constexpr std::array<std::string_view, 6> kPicks = {"aten::min",  "aten::max",    "aten::amin",
                                                    "aten::amax", "aten::argmin", "aten::argmax"};

/// Whether an operator behind this one picks one of many: distances between all pairs are meant.
bool is_picked_from(const OpTrace& trace, const OpTrace::Record& record) {
  std::vector<const OpTrace::Record*> open = {&record};
  std::unordered_set<const OpTrace::Record*> seen = {&record};
  while (!open.empty()) {
    const OpTrace::Record& now = *open.back();
    open.pop_back();
    for (const OpTrace::Output& output : now.outputs) {
      for (const std::size_t number : trace.consumers_of(output.id)) {
        const OpTrace::Record& next = trace.records()[number];
        const bool is_alone = next.inputs.size() == 1;  // not the smaller of two losses
        if (is_alone && std::ranges::find(kPicks, next.op) != kPicks.end()) return true;
        if (seen.insert(&next).second) open.push_back(&next);
      }
    }
  }
  return false;
}

/// loss-broadcast; docs/checks/loss-broadcast.md
class LossBroadcast final : public Check {
 public:
  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override {
    if (!event.surveyed || !event.accumulates) return;
    for (const auto* record : records_before(state.trace(), event.roots, kMaxDistance)) {
      if (!record->grad_mode) continue;
      const auto pair = broadcast_of(*record, state);
      if (!pair.has_value() || is_picked_from(state.trace(), *record)) continue;
      Seen& seen = seen_[{record->op, record->path, pair->cause}];
      if (seen.steps > 0 && seen.last_step == event.at.step) continue;
      if (++seen.steps == 1) seen.first_step = event.at.step;
      seen.last_step = event.at.step;
      if (seen.steps < kBroadcastSteps) continue;
      findings.push_back(broadcast_finding(*record, *pair, state));
      findings.back().first_step = seen.first_step;
    }
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { seen_.clear(); }

 private:
  struct Seen {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    int steps = 0;
  };
  struct Place {
    std::string op;
    std::string path;
    std::string cause;
    auto operator<=>(const Place&) const = default;
  };
  std::map<Place, Seen> seen_;
};
}  // namespace

std::unique_ptr<Check> make_loss_broadcast() { return std::make_unique<LossBroadcast>(); }

}  // namespace ddpscope
