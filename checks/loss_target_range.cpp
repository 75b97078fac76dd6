#include <memory>
#include <utility>

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
    if (event.offenders_count == 0) return;
    told_in_ = event.at.step;
    findings.push_back(out_of_range(event, state));
  }

  // Where hooks rest nobody looked at the values: what the operator says of them has to do.
  void on_error(const ErrorEvent& event, const RunState& state, Findings& findings) override {
    if (told_in_ == event.at.step) return;
    auto finding = thrown_out_of_range(event, state);
    if (!finding.has_value()) return;
    told_in_ = event.at.step;
    findings.push_back(*std::move(finding));
  }

 private:
  std::int64_t told_in_ = -1;
};
}  // namespace

std::unique_ptr<Check> make_loss_target_range() { return std::make_unique<LossTargetRange>(); }

}  // namespace ddpscope
