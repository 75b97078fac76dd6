#pragma once

#include <string>
#include <vector>

#include "records/jsonl_writer.h"
#include "tests/support/catch.h"

namespace ddpscope {

/// Writes one rank of world size 1 with these findings and a clean exit.
inline void write_findings(const std::string& dir, const Findings& findings) {
  auto opened = JsonlWriter::open(dir, {.run_id = "r1", .started = "2026-01-01T00:00:00Z"});
  REQUIRE(opened.writer != nullptr);
  SummaryRecord summary;
  for (const Finding& finding : findings) opened.writer->write_finding(finding);
  for (const Finding& finding : findings) summary.errors += finding.severity == Severity::kError;
  opened.writer->write_summary(summary);
}

inline Finding finding_named(const std::string& fingerprint, Severity severity) {
  return {.id = "optim-empty",
          .severity = severity,
          .module_path = "layer-" + fingerprint,
          .what = "the optimizer holds no trainable parameter",
          .fingerprint = fingerprint};
}

}  // namespace ddpscope
