#include "checks/traffic_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/byte_text.h"
#include "checks/finding_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

bool has_cause(const SmallCollectives& found, std::string_view cause) {
  return std::ranges::find(found.causes, cause) != found.causes.end();
}

std::string why_costly(const SmallCollectives& found) {
  std::vector<std::string> parts;
  if (has_cause(found, "tiny"))
    parts.emplace_back("each call costs its latency, whatever it carries");
  if (has_cause(found, "every_micro_batch")) {
    parts.push_back(fmt::format("{:.1f} times the bytes of the gradients that are stepped are sent",
                                found.usual.bytes_ratio));
  }
  if (has_cause(found, "constant_buffers")) {
    parts.push_back(fmt::format("{} broadcast in every step that no operator writes",
                                counted(found.constant_buffers, "buffer")));
  }
  if (has_cause(found, "no_overlap")) {
    parts.emplace_back("the calls are issued after backward, and the step waits for them");
  }
  return joined(parts, "; ");
}

std::vector<Fix> fixes_for_traffic(const SmallCollectives& found) {
  std::vector<Fix> fixes;
  if (has_cause(found, "tiny")) {
    fixes.push_back({"copy gradients into flat buckets of about 25 MiB: one call each", kLikely});
  }
  if (has_cause(found, "no_overlap")) {
    fixes.push_back({"start calls from hooks on the gradients, wait before step()", kLikely});
  }
  if (has_cause(found, "every_micro_batch")) {
    fixes.push_back({"average after the last micro-batch of a step only", kLikely});
  }
  if (has_cause(found, "constant_buffers")) {
    fixes.push_back({"broadcast these buffers once, before the first step", kLikely});
  }
  return fixes;
}
}  // namespace

Finding small_collectives(const SmallCollectives& found, const RunState& state) {
  const UsualTraffic& usual = found.usual;
  const auto calls = static_cast<std::int64_t>(usual.calls);
  const auto bytes = static_cast<std::int64_t>(usual.bytes);
  const auto call_bytes = static_cast<std::int64_t>(usual.median_bytes);
  Finding finding;
  finding.severity = found.is_costly ? Severity::kWarning : Severity::kNote;
  // That nothing writes a buffer is not observed: its values are not compared.
  const bool is_guess = found.causes.size() == 1 && has_cause(found, "constant_buffers");
  if (is_guess) finding.evidence_status = EvidenceStatus::kHypothesis;
  finding.phase = Phase::kReduce;
  if (const ModelState* model = state.first_model()) finding.model = model->label;
  finding.what = fmt::format("{} per step, median {}, {:.0f} % of the step is waiting ({})",
                             counted(calls, "all-reduce"), byte_text(call_bytes),
                             100 * usual.wait_ratio, joined(found.causes));
  finding.why = why_costly(found);
  finding.fixes = fixes_for_traffic(found);
  finding.facts = {{fact::kCauses, as_fact(found.causes)},
                   {fact::kCallsCount, calls},
                   {fact::kBytes, bytes},
                   {fact::kBytesRatio, usual.bytes_ratio},
                   {fact::kWaitedMs, usual.waited_ms},
                   {fact::kOverlapRatio, usual.overlap_ratio},
                   {fact::kMedianBytes, call_bytes}};
  return finding;
}

}  // namespace ddpscope
