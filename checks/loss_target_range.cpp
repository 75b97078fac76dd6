#include <memory>

#include "checks/check.h"
#include "checks/range_text.h"

namespace ddpscope {
namespace {
/// loss-target-range; docs/checks/loss-target-range.md
class LossTargetRange final : public Check {
 public:
  // The operator throws, or its kernel asserts: nothing to wait for.
  void on_out_of_range(const OutOfRangeEvent& event, const RunState& state,
                       Findings& findings) override {
    if (event.offenders_count > 0) findings.push_back(out_of_range(event, state));
  }
};
}  // namespace

std::unique_ptr<Check> make_loss_target_range() { return std::make_unique<LossTargetRange>(); }

}  // namespace ddpscope
