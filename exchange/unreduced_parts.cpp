#include "exchange/unreduced_parts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
constexpr std::uint64_t kFewNumbers = 64;
constexpr std::size_t kLeastValues = 3;  // of the parameters, so that they are trained

/// What all ranks have.
struct TrainedParts {
  std::uint64_t elements = 0;
  std::int64_t parameters = 0;
};

TrainedParts trained_parts_on(const RingReader& ring) {
  TrainedParts trained;
  for (const auto& [model, list] :
       lists_at(ring.blobs(), std::numeric_limits<std::int64_t>::max())) {
    trained.elements += trained_elements(list);
    for (const ListedTensor& tensor : list.tensors) {
      trained.parameters += !tensor.is_buffer && tensor.requires_grad;
    }
  }
  return trained;
}

/// What ranks gave each other between two steps, by the step that began next.
struct GivenParts {
  std::uint64_t elements = 0;
  std::set<std::int32_t> roots;  ///< -1: it was gathered
};

struct PartCalls {
  std::map<std::int64_t, GivenParts> steps;
  bool brings_else = false;
};

PartCalls part_calls_of(const RingReader& ring, std::size_t ranks) {
  using enum CollectiveKind;
  PartCalls calls;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    if (!call || call->elements <= kFewNumbers) continue;
    const bool is_early = call->step <= 1 && call->phase < Phase::kBackward;
    if (is_early && call->kind == kBroadcast) continue;
    const bool gives = call->kind == kAllGather || call->kind == kBroadcast;
    const bool is_of_all = group_size(call->group) == static_cast<std::int64_t>(ranks);
    calls.brings_else |= !gives || !is_of_all || call->phase >= Phase::kBackward;
    if (calls.brings_else) return calls;
    GivenParts& given = calls.steps[call->step];
    const bool is_gathered = call->kind == kAllGather;
    given.elements += call->elements * (is_gathered ? ranks : 1);
    given.roots.insert(is_gathered ? -1 : call->root);
  }
  return calls;
}

/// Each element once, some more where all parts have one size; of broadcasts from several ranks.
bool is_of_parts(const GivenParts& given, const TrainedParts& trained) {
  const bool is_each_once = given.elements >= trained.elements &&
                            given.elements <= trained.elements + trained.elements / 8;
  return is_each_once && (given.roots.contains(-1) || given.roots.size() > 1);
}

/// Of one rank, by step.
struct PartsTold {
  std::map<std::int64_t, std::uint64_t> batches;
  std::set<std::uint64_t> parameters;
  bool trains_all = true;  ///< each of its backwards reached all parameters
};

PartsTold parts_told_by(const RingReader& ring, const TrainedParts& trained) {
  PartsTold told;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    const auto digest = ring.digest(place);
    if (!digest || digest->step == 0 || digest->phase == Phase::kReduce) continue;
    if (digest->parameters != 0) told.parameters.insert(digest->parameters);
    const bool is_known = digest->batch != 0 && digest->received > 0;
    if (is_known) told.batches[digest->step] = digest->batch;
    told.trains_all &= !is_known || digest->received == trained.parameters;
  }
  return told;
}

/// Batches that two ranks share may be of one computation that they do together.
bool differ_in(std::int64_t step, const std::vector<PartsTold>& ranks) {
  std::set<std::uint64_t> batches;
  for (const PartsTold& told : ranks) {
    const auto found = told.batches.find(step);
    if (found == told.batches.end() || !batches.insert(found->second).second) return false;
  }
  return true;
}
}  // namespace

std::vector<std::int64_t> steps_of_unreduced_parts(const RingList& rings, const Cohort& cohort) {
  const bool may_be = !cohort.averages && cohort.equal_at_start && cohort.unequal_steps.empty();
  if (!may_be || rings.size() < 2 || rings.size() < cohort.ranks.size()) return {};
  const TrainedParts trained = trained_parts_on(*rings.front());
  if (trained.elements <= 10 * kFewNumbers) return {};
  std::vector<PartsTold> told;
  std::map<std::int64_t, std::size_t> given_in;  // ranks
  for (const RingReader* ring : rings) {
    const PartCalls calls = part_calls_of(*ring, rings.size());
    const auto are_parts = [&](const auto& one) { return is_of_parts(one.second, trained); };
    const bool are_all = !calls.brings_else && std::ranges::all_of(calls.steps, are_parts);
    if (!are_all || !steps_itself(*ring)) return {};
    for (const auto& [step, given] : calls.steps) ++given_in[step];
    told.push_back(parts_told_by(*ring, trained));
    if (!told.back().trains_all || told.back().parameters.size() < kLeastValues) return {};
  }
  std::vector<std::int64_t> steps;
  for (const auto& [step, ranks] : given_in) {
    // Given when that step began, of the one before.
    if (ranks == rings.size() && differ_in(step - 1, told)) steps.push_back(step - 1);
  }
  return steps;
}

}  // namespace ddpscope
