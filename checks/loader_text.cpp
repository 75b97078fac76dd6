#include "checks/loader_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"

namespace ddpscope {
namespace {
using enum Applicability;
}  // namespace

void explain_loader(std::int64_t workers, const RunState& state, Finding& finding) {
  const std::int64_t cores = state.host().cores;
  if (workers == 0) {
    finding.why = "no loader thread makes the next batch while this one trains";
    finding.fixes = {{"DataLoaderOptions().workers(2), then measure", kLikely}};
  } else {
    finding.why = fmt::format("{} on {}", counted(workers, "loader thread"),
                              cores > 0 ? counted(cores, "usable core") : "unknown cores");
    const bool too_many = cores > 0 && workers > cores;
    finding.fixes = {{fmt::format("DataLoaderOptions().workers({}), then measure",
                                  too_many ? std::max<std::int64_t>(cores / 2, 1) : workers + 1),
                      kLikely},
                     {"max_jobs for prefetch", kLikely}};
  }
  finding.fixes.push_back({"decode off line", kNeedsDecision});
  if (state.world_size() > 1) {
    // What ranks exchange between a step and the next forward is not seen.
    finding.confidence = Confidence::kMedium;
    finding.why += "; or the ranks exchange something between the step and the forward";
  }
}

}  // namespace ddpscope
