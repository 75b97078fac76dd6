#include "checks/failure_links.h"

#include "checks/fact_words.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
const std::int64_t* first_rank_of(const Finding& failure) {
  const FactValue* first = find_fact(failure, fact::kFirstRank);
  return first == nullptr ? nullptr : std::get_if<std::int64_t>(first);
}
}  // namespace

bool is_why_a_rank_failed(const Finding& cause, const Finding& effect) {
  if (cause.step > effect.step) return false;
  const std::int64_t* rank = first_rank_of(effect);
  if (rank == nullptr || has_word(effect, fact::kCause, "launcher_or_session")) return true;
  if (cause.id == "collective-hang") return lists(cause, fact::kWaitingRanks, *rank);
  return effect.step <= cause.step + 1;
}

bool is_refused_list(const Finding& cause, const Finding& effect) {
  const std::int64_t* rank = first_rank_of(effect);
  const std::string_view thrown = text_in(effect, fact::kException);
  const bool is_of_call = thrown.find("ProcessGroup") != std::string_view::npos;
  const bool is_of_rank =
      rank != nullptr && (cause.rank == *rank || std::ranges::count(cause.ranks, *rank) > 0);
  return is_of_call && is_of_rank && cause.step == effect.step;
}

bool is_why_a_rank_is_gone(const Finding& cause, const Finding& effect) {
  const std::int64_t* rank = first_rank_of(cause);
  return rank != nullptr && cause.step <= effect.step &&
         lists(effect, fact::kSuspectRanks, *rank) && !has_word(effect, fact::kState, "stuck");
}

bool is_why_a_rank_lags(const Finding& cause, const Finding& effect) {
  const std::int64_t* rank = first_rank_of(cause);
  return rank != nullptr && lists(effect, fact::kLaggingRanks, *rank);
}

}  // namespace ddpscope
