#include "exchange/sent_compare.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "exchange/digest_walk.h"
#include "exchange/sides.h"
#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
constexpr std::size_t kSentSteps = 8;
constexpr std::size_t kMaxLed = 16;

struct Place {
  std::uint32_t model = 0;
  std::size_t index = 0;  ///< among the parameters
  auto operator<=>(const Place&) const = default;
};

struct Read {
  std::int64_t step = 0;
  std::uint64_t word = 0;
};
/// Of each trainable parameter of a rank, by step.
using Histories = std::map<Place, std::vector<Read>>;
using Lists = std::map<std::uint32_t, TensorList>;

Histories histories_of(const RingReader& ring, const Lists& lists) {
  Histories histories;
  for (const Blob& blob : ring.blobs()) {
    const auto list = lists.find(blob.number);
    if (blob.kind != BlobKind::kFingerprints || list == lists.end()) continue;
    const auto order = in_told_order(list->second, /*with_buffers=*/false);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::uint64_t word = fingerprint_in(blob.bytes, i);
      if (word == 0 || !order[i]->requires_grad) continue;
      histories[{blob.number, i}].push_back({blob.step, word});
    }
  }
  return histories;
}

bool has_gradient(const RingReader& ring, const Place& place) {
  const Blob* told = latest_blob(ring.blobs(), BlobKind::kGradients, place.model, INT64_MAX);
  if (told == nullptr || place.index / 8 >= told->bytes.size()) return false;
  return (static_cast<unsigned char>(told->bytes[place.index / 8]) >> place.index % 8 & 1) != 0;
}

std::set<std::uint64_t> words_in(const std::vector<Read>& history) {
  std::set<std::uint64_t> words;
  for (const Read& read : history) words.insert(read.word);
  return words;
}

/// What a rank that takes no step has of the weights of one that does. Steps end elsewhere on it:
/// values are looked for in all steps of the other.
struct Given {
  std::set<Place> never;
  std::size_t sent = 0;   ///< parameters that have later values of the other
  std::int64_t step = 0;  ///< the first one after the start that was read
  bool is_clear = true;   ///< each parameter is either sent or stays as it was
};

void add(const RingReader& led, const Place& place, const std::vector<Read>& own,
         const std::vector<Read>& leading, Given& given) {
  const std::set<std::uint64_t> values = words_in(leading);
  if (values.size() < kSentSteps) return;
  const std::uint64_t first = own.front().word;
  std::set<std::uint64_t> later = words_in(own);
  later.erase(first);
  if (later.empty()) {
    const bool is_used = own.size() > kSentSteps && has_gradient(led, place);
    given.is_clear &= is_used && leading.front().word == first;
    given.never.insert(place);
    if (own.size() > 1) given.step = own[1].step;
    return;
  }
  std::erase_if(later, [&values](std::uint64_t word) { return !values.contains(word); });
  given.is_clear &= later.size() >= kSentSteps;
  ++given.sent;
}

/// In several steps it sent as many elements as the trained parameters have, and got as many, or
/// some more: gradients for weights.
bool gives_and_is_given(const RingReader& led, const Lists& lists) {
  using enum CollectiveKind;
  struct Elements {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  std::map<std::int64_t, Elements> steps;
  for (auto place = led.first_call(); place < led.call_count(); ++place) {
    const auto call = led.call(place);
    if (!call) continue;
    const bool sends = call->kind == kSend || call->kind == kGather || call->kind == kReduce;
    const bool gets = call->kind == kReceive || call->kind == kBroadcast || call->kind == kScatter;
    if (sends) steps[call->step].sent += call->elements;
    if (gets) steps[call->step].received += call->elements;
  }
  std::uint64_t all = 0;
  for (const auto& [model, list] : lists) all += trained_elements(list);
  const auto is_all = [all](std::uint64_t count) { return count >= all && count <= all + all / 8; };
  return std::ranges::count_if(steps, [&](const auto& one) {
           return is_all(one.second.sent) && is_all(one.second.received);
         }) >= static_cast<std::ptrdiff_t>(kSentSteps);
}

Given given_to(const RingReader& led, const Histories& leading, const Lists& lists) {
  Given given;
  const Lists own_lists = lists_at(led.blobs(), INT64_MAX);
  const bool are_same = std::ranges::equal(lists, own_lists, [](const auto& a, const auto& b) {
    return a.first == b.first && hash_of(a.second) == hash_of(b.second);
  });
  if (!are_same) return given;
  for (const auto& [place, own] : histories_of(led, lists)) {
    const auto other = leading.find(place);
    if (other != leading.end()) add(led, place, own, other->second, given);
  }
  const bool are_most = given.never.size() > given.sent;
  const bool is_dropped = given.sent == 0 && gives_and_is_given(led, lists);
  if (!given.is_clear || (are_most && !is_dropped)) given.never.clear();
  return given;
}

ValuesDiffer describe(const Given& given, const RankList& led, const RankList& leading,
                      const Lists& lists) {
  ValuesDiffer values{.step = given.step, .compared = std::ssize(given.never)};
  values.compared += static_cast<std::int64_t>(given.sent);
  values.sides = {{"", led}, {"", leading}};
  values.differing = std::ssize(given.never);
  for (const Place& place : given.never) {
    const TensorList& list = lists.at(place.model);
    const auto order = in_told_order(list, /*with_buffers=*/false);
    values.tensors.push_back({.model = list.model,
                              .path = order[place.index]->path,
                              .requires_grad = true,
                              .model_number = place.model});
  }
  values.module_path = common_module(values.tensors);
  return values;
}
}  // namespace

std::optional<ValuesDiffer> compare_sent_weights(const RingList& rings) {
  RankList leading;
  RingList led;
  const RingReader* leader = nullptr;
  for (const RingReader* ring : rings) {
    if (!steps_itself(*ring)) {
      led.push_back(ring);
      continue;
    }
    leading.push_back(ring->head().rank);
    if (leader == nullptr) leader = ring;
  }
  if (leader == nullptr || led.empty()) return std::nullopt;
  const Lists lists = lists_at(leader->blobs(), INT64_MAX);
  const Histories histories = histories_of(*leader, lists);
  std::map<std::set<Place>, RankList> ranks_of;
  std::map<std::set<Place>, Given> told;
  for (std::size_t i = 0; i < std::min(led.size(), kMaxLed); ++i) {
    const Given given = given_to(*led[i], histories, lists);
    if (given.never.empty()) continue;
    ranks_of[given.never].push_back(led[i]->head().rank);
    told.try_emplace(given.never, given);
  }
  if (told.empty()) return std::nullopt;
  const auto& [places, given] = *told.begin();
  return describe(given, ranks_of.at(places), leading, lists);
}

}  // namespace ddpscope
