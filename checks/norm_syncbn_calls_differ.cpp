#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/norm_call_text.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr char kOperator[] = "ddpscope::sync_batch_norm";

struct Parting {
  const CallsDiffer& difference;
  const CallSide& odd = odd_side(difference);
  const CallSide& usual = usual_side(difference, odd);

  /// The call in which ranks were in a layer: that of the many, where they were in one.
  const ComparedCall& of_layer() const {
    return usual.call.record.norm_call != 0 ? usual.call : odd.call;
  }
  bool is_about_lists() const {
    return is_list_of_layers(usual.call) && is_list_of_layers(odd.call);
  }
};

std::vector<FactScalar> per_side(const CallsDiffer& difference, auto word) {
  std::vector<RankSide> sides;
  for (const CallSide& side : difference.sides) {
    sides.push_back({std::string(word(side.call)), side.ranks});
  }
  return per_side(sides);
}

void tell_lists(const Parting& parting, Finding& finding) {
  finding.module_path.clear();
  finding.facts = {{fact::kCause, std::string("layers_differ")},
                   {fact::kMinorityRanks, as_fact(parting.odd.ranks)}};
  finding.what =
      fmt::format("the lists of batch norm layers differ: {} on {} and {} on {}",
                  call_of_norm(parting.usual.call, false), rank_words(parting.usual.ranks),
                  call_of_norm(parting.odd.call, false), rank_words(parting.odd.ranks));
  finding.why =
      "layers are matched by their order; synchronised batch norm is off on all ranks, each "
      "normalises by its own batch";
  finding.fixes = {{"build the same model, with the same options, on every rank", kLikely},
                   {"give every rank the same sync_batch_norm_exclude", kLikely}};
}

void tell_calls(const Parting& parting, Finding& finding) {
  const bool sizes_differ =
      std::ranges::find(parting.difference.fields, "elements") != parting.difference.fields.end();
  finding.what =
      fmt::format("call {} of the group is {} on {} and {} on {}", parting.difference.seq,
                  call_of_norm(parting.usual.call, sizes_differ), rank_words(parting.usual.ranks),
                  call_of_norm(parting.odd.call, sizes_differ), rank_words(parting.odd.ranks));
}

/// What ranks that part in a call of a layer are told, but for the sentence.
Finding about_calls(const ComparedCall& call, std::uint64_t group, const RankList& odd) {
  Finding finding;
  finding.severity = Severity::kError;
  finding.rank = odd.front();
  finding.ranks = odd;
  finding.step = call.record.step;
  finding.phase = call.record.phase;
  finding.module_path = call.owner;
  finding.op = kOperator;
  finding.why =
      "each call of the layer in training waits for all ranks: one that skips it, or runs it in "
      "another order, leaves the others waiting or mixes the statistics of two layers";
  finding.fixes = {
      {"run the layer on every rank, with an empty batch if need be", kLikely},
      {"eval() before one rank runs the model by itself, as to evaluate", kLikely},
      {"normalise by the local batch in a branch that not all ranks take", kNeedsDecision},
      {"give the layer a group of those ranks alone that run it", kNeedsDecision}};
  finding.facts = {{fact::kCause, std::string("calls_differ")},
                   {fact::kGroup, fmt::format("{:016x}", group)},
                   {fact::kSeq, static_cast<std::int64_t>(call.record.seq)},
                   {fact::kLayer, call.owner},
                   {fact::kCallIndex, norm_number(call.record.norm_call)},
                   {fact::kMinorityRanks, as_fact(odd)}};
  return finding;
}

Finding parted(const CallsDiffer& difference, const NormSettings& settings) {
  const Parting parting{difference};
  Finding finding = about_calls(parting.of_layer(), difference.group, parting.odd.ranks);
  finding.step = difference.step;
  parting.is_about_lists() ? tell_lists(parting, finding) : tell_calls(parting, finding);
  const auto words = [](const ComparedCall& call) { return call_of_norm(call, false); };
  finding.facts.push_back({fact::kLayerPerSide, per_side(difference, words)});
  finding.facts.push_back({fact::kModePerRank, per_side(difference, phase_of_norm)});
  if (!parting.is_about_lists()) {
    finding.facts.push_back({fact::kCallsPerRank, per_side(difference.norm_calls)});
  }
  tell_settings(settings, parting.usual, parting.odd, finding);
  return finding;
}

/// Of those that the others wait for in a layer, the ranks that wait elsewhere: they went on.
RankList gone_on(const Frontier& frontier, const RanksComparedEvent& run) {
  RankList ranks;
  for (const std::int64_t rank : frontier.behind) {
    const bool waits = std::ranges::any_of(run.frontiers, [&](const Frontier& other) {
      return &other != &frontier && std::ranges::binary_search(other.waiting, rank);
    });
    if (waits) ranks.push_back(rank);
  }
  return ranks;
}

Finding skipped(const Frontier& frontier, const RankList& ranks, const NormSettings& settings) {
  Finding finding = about_calls(frontier.call, frontier.group, ranks);
  finding.what = fmt::format(
      "{} waited in {}, which {} did not reach before a call of another group",
      rank_words(frontier.waiting), call_of_norm(frontier.call, false), rank_words(ranks));
  finding.facts.push_back({fact::kCallsPerRank, per_side(frontier.norm_calls)});
  tell_settings(settings, {frontier.call, frontier.waiting}, {{}, ranks}, finding);
  return finding;
}

/// norm-syncbn-calls-differ; docs/checks/norm-syncbn-calls-differ.md
class NormSyncbnCallsDiffer final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    const auto first = std::ranges::min_element(run.calls_differ, is_earlier);
    if (first != run.calls_differ.end()) {
      if (is_of_norm(*first)) findings.push_back(parted(*first, run.norm_settings));
      return;
    }
    for (const Frontier& frontier : run.frontiers) {
      if (frontier.call.record.norm_call == 0) continue;
      const RankList ranks = gone_on(frontier, run);
      if (!ranks.empty()) findings.push_back(skipped(frontier, ranks, run.norm_settings));
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_norm_syncbn_calls_differ() {
  return std::make_unique<NormSyncbnCallsDiffer>();
}

}  // namespace ddpscope
