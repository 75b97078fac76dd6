#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
bool differs_in(const CallsDiffer& difference, std::string_view field) {
  return std::ranges::find(difference.fields, field) != difference.fields.end();
}

/// And not in which call it is.
bool differs_in_size_alone(const CallsDiffer& difference) {
  const bool are_of_one_step = std::ranges::all_of(difference.sides, [&](const CallSide& side) {
    return side.call.record.step == difference.step;
  });
  return are_of_one_step && std::ranges::all_of(difference.fields, [](const std::string& field) {
           return field == "elements" || field == "dtype";
         });
}

/// Broadcasts before the first backward, as of the parameters of one rank to the others.
bool is_start_of_replicas(const CallsDiffer& difference) {
  return std::ranges::all_of(difference.sides, [](const CallSide& side) {
    const CallRecord& call = side.call.record;
    return call.kind == CollectiveKind::kBroadcast && call.step <= 1 &&
           call.phase < Phase::kBackward;
  });
}

std::string side_words(const CallsDiffer& difference, const CallSide& side) {
  const bool steps_differ = std::ranges::any_of(
      difference.sides,
      [&difference](const CallSide& one) { return one.call.record.step != difference.step; });
  std::string words = call_words(side.call, differs_in(difference, "reduce"));
  if (steps_differ) words += fmt::format(" in step {}", side.call.record.step);
  return words + " on " + rank_words(side.ranks);
}

/// The usual call first.
std::vector<std::string> words_per_side(const CallsDiffer& difference, const CallSide& odd) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> words;
  for (auto side = difference.sides.rbegin(); side != difference.sides.rend(); ++side) {
    if (&*side != &odd) words.push_back(side_words(difference, *side));
  }
  words.resize(std::min(words.size(), kShown - 1));
  words.push_back(side_words(difference, odd));
  return words;
}

std::string why_of(const CallsDiffer& difference, const CallSide& odd, const CallSide& usual) {
  if (difference.fields == std::vector<std::string>{"owner"}) {
    return "the sizes are equal, so the calls complete in silence and mix different tensors";
  }
  if (difference.fields == std::vector<std::string>{"reduce"}) {
    return "the calls complete in silence; each rank combines the values in its own way";
  }
  if (odd.call.module != usual.call.module || odd.call.record.step != usual.call.record.step) {
    return fmt::format(
        "{} issued its call {} in {} of step {}, the others in {} of step {}",
        rank_words(odd.ranks), difference.seq,
        odd.call.module.empty() ? "the program" : odd.call.module, odd.call.record.step,
        usual.call.module.empty() ? "the program" : usual.call.module, usual.call.record.step);
  }
  return "calls are matched by their number: Gloo ends the process where sizes differ, NCCL mixes "
         "the values or waits for good";
}

/// Where each side called, as far as stacks were taken; the usual call first.
void add_sites(const CallSide& usual, const CallSide& odd, Finding& finding) {
  std::vector<FactScalar> lines;
  const std::array<const RankList*, 2> ranks = {&usual.ranks, &odd.ranks};
  const std::array<Site, 2> sites = told_apart(usual.call.site, odd.call.site);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].frames.empty()) continue;
    finding.sites.push_back(sites[i]);
    const std::string line = line_of(sites[i]);
    if (!line.empty()) lines.push_back(line + " on " + rank_words(*ranks[i]));
  }
  if (lines.size() == ranks.size() && line_of(sites[0]) != line_of(sites[1])) {
    finding.why += fmt::format("; called at {}, at {}", std::get<std::string>(lines.front()),
                               std::get<std::string>(lines.back()));
  }
  if (!lines.empty()) finding.facts.push_back({fact::kSitePerSide, std::move(lines)});
}

Fix fix_for_sizes(const CallsDiffer& difference) {
  return {is_start_of_replicas(difference)
              ? "if these are the parameters of a model: register the same ones in the same order "
                "on every rank"
              : "give that call as many elements, of one dtype, on every rank: pad to the largest, "
                "or gather the sizes first",
          Applicability::kLikely};
}

std::vector<FactScalar> listed_ranks(const RankList& ranks) { return {ranks.begin(), ranks.end()}; }

Finding mismatch(const CallsDiffer& difference) {
  const CallSide& odd = odd_side(difference);
  const CallSide& usual = usual_side(difference, odd);
  const auto words = words_per_side(difference, odd);
  Finding finding;
  finding.severity = Severity::kError;
  finding.rank = odd.ranks.front();
  finding.ranks = odd.ranks;
  finding.step = difference.step;
  finding.phase = usual.call.record.phase;
  set_place(finding, usual.call.owner.empty() ? odd.call : usual.call);
  finding.what = fmt::format("call {} is {}", difference.seq, fmt::join(words, " and "));
  finding.why = why_of(difference, odd, usual);
  finding.fixes = {
      {"issue the same calls in the same order on every rank", Applicability::kSafe},
      {"evaluate without the group that averages, or on all ranks", Applicability::kLikely},
      {"use a group of its own for what one rank does alone", Applicability::kNeedsDecision}};
  if (is_one_line(odd.call.site, usual.call.site) && differs_in_size_alone(difference)) {
    finding.fixes.insert(finding.fixes.begin(), fix_for_sizes(difference));
  }
  finding.facts = {
      {fact::kGroup, fmt::format("{:016x}", difference.group)},
      {fact::kSeq, static_cast<std::int64_t>(difference.seq)},
      {fact::kFields, std::vector<FactScalar>(difference.fields.begin(), difference.fields.end())},
      {fact::kCallPerSide, std::vector<FactScalar>(words.begin(), words.end())},
      {fact::kMinorityRanks, listed_ranks(odd.ranks)}};
  add_sites(usual, odd, finding);
  return finding;
}

/// collective-mismatch; docs/checks/collective-mismatch.md
class CollectiveMismatch final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    // What other groups differ in later follows from it.
    const auto first = std::ranges::min_element(run.calls_differ, is_earlier);
    if (first == run.calls_differ.end() || is_of_norm(*first)) return;
    findings.push_back(mismatch(*first));
  }
};
}  // namespace

std::unique_ptr<Check> make_collective_mismatch() { return std::make_unique<CollectiveMismatch>(); }

}  // namespace ddpscope
