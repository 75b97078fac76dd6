#include "report/wording.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddpscope {
namespace {

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

struct FactToWords {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{:.6g}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<FactScalar>& values) const {
    std::string result;
    for (const auto& value : values) {
      if (!result.empty()) result += ", ";
      result += std::visit(*this, value);
    }
    return result.empty() ? "none" : result;
  }
};

}  // namespace

std::string place_of(const Finding& finding, bool with_model) {
  if (finding.module_path.empty()) return finding.model;
  if (!with_model || finding.model.empty()) return finding.module_path;
  return finding.model + "." + finding.module_path;
}

std::vector<std::int64_t> ranks_of(const Finding& finding) {
  return finding.ranks.empty() ? std::vector<std::int64_t>{finding.rank} : finding.ranks;
}

std::string place_of(const Frame& frame) {
  if (!frame.file.empty() && frame.line > 0) return fmt::format("{}:{}", frame.file, frame.line);
  if (!frame.file.empty()) return frame.file;
  if (!frame.module.empty()) return fmt::format("{}+{:#x}", frame.module, frame.offset);
  return {};
}

const Frame* main_frame(const Site& site) {
  if (site.frames.empty()) return nullptr;
  const auto has_line = [](const Frame& frame) { return !frame.file.empty() && frame.line > 0; };
  const auto found = std::ranges::find_if(site.frames, has_line);
  return found == site.frames.end() ? &site.frames.front() : &*found;
}

std::string missing_frames_words(const Site& site) {
  if (site.state == SiteState::kEvicted) {
    return "no longer recorded: a larger history= keeps it";
  }
  return "not recorded: level=stacks records it";
}

std::vector<Fix> fixes_in_order(const Finding& finding) {
  std::vector<Fix> fixes = finding.fixes;
  std::ranges::stable_sort(fixes, {}, &Fix::applicability);
  return fixes;
}

std::string applicability_words(Applicability value) {
  switch (value) {
    case Applicability::kSafe:
      return "safe";
    case Applicability::kLikely:
      return "likely";
    case Applicability::kNeedsDecision:
      return "needs decision";
  }
  return "needs decision";
}

std::string count_words(const MergedReport& report) {
  return fmt::format("{}, {}, {}", counted(report.errors, "error"),
                     counted(report.warnings, "warning"), counted(report.notes, "note"));
}

CoverageCounts count_coverage(const MergedReport& report) {
  CoverageCounts counts;
  for (const auto& [id, coverage] : report.coverage) {
    counts.passed += coverage.state == CoverageState::kPassed;
    counts.failed += coverage.state == CoverageState::kFailed;
    counts.blocked += coverage.state == CoverageState::kBlocked;
  }
  counts.run = counts.passed + counts.failed;
  return counts;
}

std::string fact_words(const FactValue& value) { return std::visit(FactToWords(), value); }

std::string overhead_words(const Overhead& overhead) {
  if (!overhead.percent) return {};
  std::string result = fmt::format("{:.1f} % of step time", *overhead.percent);
  if (overhead.percent_first) {
    result += fmt::format(", {:.1f} % in the first 64 cycles", *overhead.percent_first);
  }
  return result;
}

}  // namespace ddpscope
