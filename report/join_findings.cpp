#include "report/join_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "model/fingerprint.h"
#include "report/merged_report.h"

namespace ddpscope {
namespace {

using Ranks = std::vector<std::int64_t>;

void add_ranks(Ranks& ranks, const Finding& finding) {
  if (finding.ranks.empty()) ranks.push_back(finding.rank);
  ranks.insert(ranks.end(), finding.ranks.begin(), finding.ranks.end());
}

void sort_unique(Ranks& ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

struct Sentence {
  std::string text;
  Ranks ranks;
};

std::string joint_sentence(const Findings& group) {
  std::map<std::string, Ranks> ranks_of;
  for (const auto& finding : group) add_ranks(ranks_of[finding.what], finding);
  if (ranks_of.size() == 1) return group.front().what;

  std::vector<Sentence> sentences;
  for (auto& [text, ranks] : ranks_of) {
    sort_unique(ranks);
    sentences.push_back({text, std::move(ranks)});
  }
  std::ranges::sort(sentences, [](const Sentence& a, const Sentence& b) {
    return std::tuple(a.ranks.size(), a.ranks) < std::tuple(b.ranks.size(), b.ranks);
  });
  constexpr std::size_t kShown = 3;
  std::string result;
  for (std::size_t i = 0; i < std::min(kShown, sentences.size()); ++i) {
    const auto& [text, ranks] = sentences[i];
    result += fmt::format("{}{}: {}", i == 0 ? "" : "; ", rank_words(ranks), text);
  }
  if (sentences.size() > kShown) {
    result += fmt::format("; {} other values", sentences.size() - kShown);
  }
  return result;
}

bool is_earlier(const Finding& a, const Finding& b) {
  return std::tie(a.step, a.rank) < std::tie(b.step, b.rank);
}

/// The evidence is that of the earliest finding; the rest covers the group.
Finding join_group(Findings group) {
  Finding joint = *std::ranges::min_element(group, is_earlier);
  joint.what = joint_sentence(group);
  joint.occurrences = 0;
  joint.suppressed = true;
  Ranks ranks;
  for (const auto& finding : group) {
    add_ranks(ranks, finding);
    joint.severity = std::max(joint.severity, finding.severity);
    joint.first_step = std::min(joint.first_step, finding.first_step);
    joint.last_step = std::max(joint.last_step, finding.last_step);
    joint.occurrences += std::clamp<std::int64_t>(finding.occurrences, 0, INT64_MAX / kMaxRank / 4);
    joint.suppressed = joint.suppressed && finding.suppressed;
    if (joint.suppression_reason.empty()) joint.suppression_reason = finding.suppression_reason;
    if (joint.caused_by.empty()) joint.caused_by = finding.caused_by;
  }
  if (!joint.suppressed) joint.suppression_reason.clear();
  sort_unique(ranks);
  joint.ranks = std::move(ranks);
  return joint;
}

}  // namespace

Findings join_findings(Findings findings) {
  std::map<std::string, Findings> groups;
  for (auto& finding : findings) {
    if (finding.fingerprint.empty()) finding.fingerprint = fingerprint_of(finding);
    groups[finding.fingerprint].push_back(std::move(finding));
  }
  Findings joint;
  for (auto& [fingerprint, group] : groups) joint.push_back(join_group(std::move(group)));
  return joint;
}

}  // namespace ddpscope
