#include <fmt/format.h>

#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "checks/stale_text.h"

namespace ddpscope {
namespace {
/// autograd-inplace-saved; docs/checks/autograd-inplace-saved.md
class AutogradInplaceSaved final : public Check {
 public:
  void on_stale_saved(const StaleSavedEvent& event, const RunState& state,
                      Findings& findings) override {
    if (event.silent) return;
    const TensorState* owner = owner_of(event.tensor, state);
    if (owner != nullptr && owner->is_buffer) return;  // norm-buffer-overwritten
    WriterText writer;
    Finding finding = about_stale(event, state, writer);
    finding.what =
        fmt::format("saved tensor {} is at version {}, backward needs version {}",
                    shape_text(event.tensor.shape), event.found_version, event.saved_version);
    finding.why = who_wrote(writer, event, finding);
    finding.fixes = std::move(writer.fixes);
    findings.push_back(std::move(finding));
  }
};
}  // namespace

std::unique_ptr<Check> make_autograd_inplace_saved() {
  return std::make_unique<AutogradInplaceSaved>();
}

}  // namespace ddpscope
