#include "report/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "model/rank_words.h"

namespace ddpscope {
namespace {

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

constexpr std::string_view kNoNames = "no names: ddpscope show --symbols DIR finds them";

bool has_line(const Frame& frame) { return !frame.file.empty() && frame.line > 0; }
bool is_own_line(const Frame& frame) { return !frame.library && has_line(frame); }

/// Without the current directory, where the path leads below it.
std::string_view shown_path(std::string_view path) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  if (!error && here.size() > 2 && path.starts_with(here)) path.remove_prefix(here.size());
  return path;
}

std::string address_of(const Frame& frame) {
  const std::string_view path = frame.module;
  const std::string_view module = path.substr(path.rfind('/') + 1);
  if (!module.empty()) return fmt::format("{}+{:#x}", module, frame.offset);
  return frame.offset != 0 ? fmt::format("{:#x}", frame.offset) : "";
}

const Frame* main_frame(const Site& site) {
  auto found = std::ranges::find_if(site.frames, is_own_line);
  if (found == site.frames.end()) found = std::ranges::find(site.frames, false, &Frame::library);
  if (found == site.frames.end()) found = site.frames.begin();
  return found == site.frames.end() ? nullptr : &*found;
}

std::string missing_frames_words(const Site& site) {
  if (site.state == SiteState::kEvicted) {
    return "no longer recorded: a larger history= keeps it";
  }
  return "not recorded: level=stacks records it";
}

bool is_identifier(std::string_view text) {
  const auto is_letter = [](unsigned char letter) { return std::isalnum(letter) || letter == '_'; };
  return !text.empty() && std::ranges::all_of(text, is_letter);
}

// `2 to 16 steps`, from the quickest check to the slowest; empty where all saw every step.
std::string latency_words(const std::map<std::string, CheckCost>& checks) {
  if (checks.empty()) return {};
  const auto latency = [](const auto& check) { return check.second.latency_steps; };
  const auto [least, most] = std::ranges::minmax_element(checks, {}, latency);
  if (latency(*most) <= 1) return {};
  if (latency(*least) == latency(*most)) return fmt::format("{} steps", latency(*most));
  return fmt::format("{} to {} steps", latency(*least), latency(*most));
}
}  // namespace

std::string place_of(const Finding& finding, bool with_model) {
  if (finding.module_path.empty()) return finding.model;
  // A layer of a Sequential that is the root: a bare number says nothing.
  const bool is_number = std::isdigit(static_cast<unsigned char>(finding.module_path.front())) != 0;
  if ((!with_model && !is_number) || finding.model.empty()) return finding.module_path;
  return finding.model + "." + finding.module_path;
}

namespace {
/// Of the root: subjects of other checks are collectives, optimizers, files.
bool is_of_tensor(const Finding& finding) {
  constexpr std::array<std::string_view, 4> kGroups = {"autograd-", "grad-", "module-", "numeric-"};
  const auto is_group = [&finding](std::string_view group) {
    return finding.id.starts_with(group);
  };
  return !finding.model.empty() && std::ranges::any_of(kGroups, is_group);
}
}  // namespace

std::string tensor_place_of(const Finding& finding, bool with_model) {
  const std::string place = place_of(finding, with_model);
  // The subject of these is an optimizer.
  const bool is_of_optimizer =
      finding.id.starts_with("optim-") && finding.id != "optim-missing-parameter";
  const bool names_tensor = is_identifier(finding.subject) && !is_of_optimizer &&
                            finding.what.find(finding.subject) == std::string::npos;
  if (!names_tensor) return place;
  if (!finding.module_path.empty()) return place + "." + finding.subject;
  if (!is_of_tensor(finding)) return place;
  return with_model ? place + "." + finding.subject : finding.subject;
}

std::vector<std::int64_t> ranks_of(const Finding& finding) {
  return finding.ranks.empty() ? std::vector<std::int64_t>{finding.rank} : finding.ranks;
}

std::string place_of(const Frame& frame) {
  if (!has_line(frame)) return address_of(frame);
  return fmt::format("{}:{}", shown_path(frame.file), frame.line);
}

SitePlace place_of(const Site& site) {
  const Frame* frame = main_frame(site);
  if (frame == nullptr) return {.place = missing_frames_words(site)};
  SitePlace result{.function = frame->function, .place = place_of(*frame), .frame = frame};
  if (is_own_line(*frame)) return result;
  result.place = address_of(*frame);
  const bool nameless = frame->function.empty() && !frame->module.empty();
  if (nameless || site.state == SiteState::kUnsymbolized) {
    result.place += result.place.empty() ? kNoNames : fmt::format(" ({})", kNoNames);
  }
  return result;
}

std::string file_of(const Frame& frame) { return std::string(shown_path(frame.file)); }

const Frame* line_of(const Site& site) {
  const Frame* frame = main_frame(site);
  return frame != nullptr && is_own_line(*frame) ? frame : nullptr;
}

const Site* main_site(const Finding& finding) {
  constexpr std::array<std::string_view, 6> kRoles = {"changed", "called",  "used",
                                                      "saved",   "created", "registered"};
  for (const std::string_view role : kRoles) {
    for (const Site& site : finding.sites) {
      if (site.role == role && line_of(site) != nullptr) return &site;
    }
  }
  return nullptr;
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

std::string shortened(std::string_view text, std::size_t most) {
  return std::string(text.substr(0, most)) + (text.size() > most ? "..." : "");
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

std::string leftover_words(const SuppressionRecord& suppression) {
  const bool is_expired = suppression.state == SuppressionState::kExpired;
  return fmt::format("{}:{}: {}: {}", suppression.path, suppression.line, suppression.text,
                     is_expired ? "expired after " + suppression.until : "matched no finding");
}

std::string fact_words(const FactValue& value) { return std::visit(FactToWords(), value); }

std::string overhead_words(const Overhead& overhead) {
  const auto first = overhead.percent_first;
  if (!overhead.percent) {
    return first ? fmt::format("{:.1f} % of step time, all hooks running", *first) : "";
  }
  std::string result = fmt::format("{:.1f} % of step time", *overhead.percent);
  if (first) result += fmt::format(", {:.1f} % while all hooks ran", *first);
  const std::string seen = latency_words(overhead.checks);
  if (!seen.empty()) result += "; what began later was seen within " + seen;
  return result;
}

}  // namespace ddpscope
