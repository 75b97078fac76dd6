#include <fmt/format.h>

#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "checks/stale_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// norm-buffer-overwritten; docs/checks/norm-buffer-overwritten.md
class NormBufferOverwritten final : public Check {
 public:
  void on_stale_saved(const StaleSavedEvent& event, const RunState& state,
                      Findings& findings) override {
    const TensorState* owner = owner_of(event.tensor, state);
    if (event.silent || owner == nullptr || !owner->is_buffer) return;
    WriterText writer;
    Finding finding = about_stale(event, state, writer);
    finding.what = fmt::format(
        "{} {} was overwritten after forward saved it: saved at version {}, now {}",
        finding.subject, shape_text(event.tensor.shape), event.saved_version, event.found_version);
    finding.why = who_wrote(writer, event, finding);
    const bool of_norm = event.node.find("BatchNorm") != std::string::npos;
    finding.fixes = {{"copy or broadcast buffers once per step, before its first forward", kLikely},
                     {"one forward on the concatenated input", kLikely}};
    // What a forward computes into its own buffer is no copy of another rank's.
    const bool is_sync = writer.kind != "operator" || writer.op == "aten::copy_";
    if (!is_sync && !of_norm) {
      finding.fixes = {{"write the buffer when the backward that reads it has ended", kLikely}};
    }
    if (of_norm && !event.only_checked) {
      finding.why +=
          "; in eval mode backward reads running statistics: with these the gradients are others";
    } else if (of_norm) {
      finding.why +=
          "; in training mode backward only checks running statistics and never reads them, so the "
          "order is at fault and not the values";
    } else {
      finding.fixes.push_back({"clone() the buffer where forward uses it", kSafe});
    }
    finding.facts.push_back({fact::kBuffer, finding.subject});
    findings.push_back(std::move(finding));
  }
};
}  // namespace

std::unique_ptr<Check> make_norm_buffer_overwritten() {
  return std::make_unique<NormBufferOverwritten>();
}

}  // namespace ddpscope
