#include "exchange/one_sender.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
constexpr std::uint64_t kFewNumbers = 64;

std::uint64_t trained_on(const RingReader& ring) {
  std::uint64_t elements = 0;
  const auto lists = lists_at(ring.blobs(), std::numeric_limits<std::int64_t>::max());
  for (const auto& [model, list] : lists) elements += trained_elements(list);
  return elements;
}

/// What a rank issued before a step began, and after the one before had ended.
struct Between {
  std::uint64_t elements = 0;  ///< broadcast by the sender
  bool has_scores = false;     ///< a few numbers, by which ranks may choose whose weights to take
};

struct SentOnly {
  std::int32_t root = -1;
  std::map<std::int64_t, Between> steps;
};

/// Nothing where something else than broadcasts of one rank to all was of more than a few numbers.
std::optional<SentOnly> sent_on(const RingReader& ring, std::size_t ranks) {
  using enum CollectiveKind;
  SentOnly sent;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    if (!call || call->step <= 1 || call->kind == kBarrier) continue;
    Between& between = sent.steps[call->step];
    const bool is_few = call->elements <= kFewNumbers;
    if (call->kind != kBroadcast) {
      if (!is_few) return std::nullopt;
      between.has_scores = true;
      continue;
    }
    if (sent.root < 0) sent.root = call->root;
    const bool is_of_all = group_size(call->group) == static_cast<std::int64_t>(ranks);
    if (!is_few && (call->root != sent.root || !is_of_all)) return std::nullopt;
    between.elements += call->elements;
  }
  return sent.root < 0 ? std::nullopt : std::optional(std::move(sent));
}

/// Of a step of which each rank read a batch that no other had.
bool have_own_batches(const RingList& rings, std::int64_t step) {
  std::set<std::uint64_t> batches;
  for (const RingReader* ring : rings) {
    const auto digest = find_digest(*ring, step);
    if (!digest || digest->batch == 0 || !batches.insert(digest->batch).second) return false;
  }
  return true;
}
}  // namespace

void compare_senders(const RingList& rings, Cohort& cohort) {
  const bool may_be = !cohort.averages && cohort.equal_at_start && !cohort.unequal_steps.empty();
  if (!may_be || rings.size() < 2 || rings.size() < cohort.ranks.size()) return;
  if (!std::ranges::all_of(rings, [](const RingReader* ring) { return steps_itself(*ring); })) {
    return;
  }
  std::vector<SentOnly> all;
  for (const RingReader* ring : rings) {
    auto sent = sent_on(*ring, rings.size());
    if (!sent || (!all.empty() && sent->root != all.front().root)) return;
    all.push_back(*std::move(sent));
  }
  const std::uint64_t trained = trained_on(*rings.front());
  const auto was_sent_by = [&](std::int64_t step) {
    return std::ranges::all_of(all, [&](const SentOnly& rank) {
      const auto found = rank.steps.find(step);
      return found != rank.steps.end() && found->second.elements >= trained;
    });
  };
  std::vector<std::int64_t> steps;
  std::ptrdiff_t scored = 0;
  for (const std::int64_t step : cohort.equal_steps) {
    if (std::ranges::count(cohort.unequal_steps, step - 1) == 0) continue;
    if (!was_sent_by(step) || !have_own_batches(rings, step - 1)) return;
    scored += all.front().steps.at(step).has_scores;
    steps.push_back(step);
  }
  if (2 * scored > std::ssize(steps)) return;
  cohort.sent_steps = std::move(steps);
  cohort.sender = cohort.ranks[static_cast<std::size_t>(all.front().root)];
}

}  // namespace ddpscope
