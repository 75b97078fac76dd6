#include "checks/norm_call_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "checks/call_text.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
using enum Applicability;

std::string_view phase_of_norm(const ComparedCall& call) {
  constexpr std::array<std::string_view, 5> kWords = {"another call", "forward", "backward",
                                                      "second backward", "layers"};
  return kWords[static_cast<std::size_t>(norm_phase(call.record.norm_call)) % kWords.size()];
}

bool is_list_of_layers(const ComparedCall& call) {
  return norm_phase(call.record.norm_call) == NormPhase::kLayers;
}

std::string call_of_norm(const ComparedCall& call, bool with_size) {
  const CallRecord& record = call.record;
  if (record.norm_call == 0) return call_words(call, /*with_reduce=*/false);
  if (is_list_of_layers(call)) return fmt::format("\"{}\"", call.owner);
  std::string words = fmt::format("{} of {}, its call {}", phase_of_norm(call), call.owner,
                                  norm_number(record.norm_call));
  if (with_size) words += fmt::format(", with {} channels", record.elements);
  return words;
}

void tell_settings(const NormSettings& settings, const CallSide& one, const CallSide& other,
                   Finding& finding) {
  if (is_list_of_layers(one.call) == is_list_of_layers(other.call)) return;
  const auto& [in_lists, elsewhere] =
      is_list_of_layers(one.call) ? std::tie(one, other) : std::tie(other, one);
  const auto is_in = [](const RankList& ranks) {
    return [&ranks](std::int64_t rank) { return std::ranges::binary_search(ranks, rank); };
  };
  const bool explains = std::ranges::all_of(in_lists.ranks, is_in(settings.on)) &&
                        std::ranges::any_of(elsewhere.ranks, is_in(settings.off));
  if (!explains) return;
  finding.module_path.clear();
  finding.what =
      fmt::format("{} {} with sync_batch_norm, {} without: {}", rank_words(settings.on),
                  settings.on.size() == 1 ? "runs" : "run", rank_words(settings.off), finding.what);
  finding.why =
      "ranks with the setting compare their lists of layers at the first forward in training; "
      "those without go on to their next collective";
  finding.fixes = {
      {"set sync_batch_norm on every rank, or on none: DDPSCOPE=sync_batch_norm=1", kSafe},
      {"let the launcher hand DDPSCOPE to every host, as mpirun -x DDPSCOPE does", kLikely}};
  std::erase_if(finding.facts, [](const Fact& fact) {
    return fact.key == fact::kLayer || fact.key == fact::kCallIndex;
  });
  set_fact(finding, fact::kCause, std::string("settings_differ"));
}

}  // namespace ddpscope
