#include "exchange/repaired_buffers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "exchange/ring_steps.h"
#include "exchange/sides.h"
#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMostStepsApart = 256;
constexpr std::uint64_t kMostCounts = 4;  // may be counts, in no buffer

/// Of all buffers of a rank, and of those of floating numbers: what a flat copy of them has.
std::set<std::uint64_t> sizes_of_buffers(const RingReader& ring) {
  std::uint64_t all = 0;
  std::uint64_t floating = 0;
  for (const auto& [model, list] : lists_at(ring.blobs(), INT64_MAX)) {
    for (const ListedTensor& tensor : list.tensors) {
      if (!tensor.is_buffer) continue;
      all += elements_of(tensor);
      if (tensor.dtype.find("float") != std::string::npos) floating += elements_of(tensor);
    }
  }
  std::set<std::uint64_t> sizes{all, floating};
  std::erase_if(sizes, [](std::uint64_t size) { return size <= kMostCounts; });
  return sizes;
}

/// What one rank gave to collectives between the end of a step and the next backward.
class GivenAfter {
 public:
  GivenAfter(const RingReader& ring, std::size_t ranks)
      : known_from_(ring.first_call() == 0 ? 0 : INT64_MAX), ended_(last_ended_step(ring)) {
    using enum CollectiveKind;
    const std::set<std::uint64_t> sizes = sizes_of_buffers(ring);
    for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
      const auto call = ring.call(place);
      if (!call) continue;
      // Of the step of the oldest call, others may be overwritten.
      known_from_ = std::min(known_from_, std::int64_t{call->step} + 1);
      const bool makes_equal = call->kind == kBroadcast || call->kind == kAllReduce;
      const bool is_of_all = group_size(call->group) >= static_cast<std::int64_t>(ranks);
      if (!makes_equal || !is_of_all || call->phase != Phase::kForward) continue;
      if (call->norm_call != 0) continue;
      if (call->owner != 0) steps_[ring.name(call->owner)].insert(call->step);
      if (call->owner == 0 && sizes.contains(call->elements)) flat_.insert(call->step);
    }
  }

  /// Whether it may be that this step was left, and its buffer not given.
  bool was_left_out(const std::string& path, std::int64_t step) const {
    return step + 1 >= known_from_ && step < ended_ && !was_given(path, step);
  }
  bool was_given(const std::string& path, std::int64_t step) const {
    const auto found = steps_.find(path);
    return flat_.contains(step + 1) || (found != steps_.end() && found->second.contains(step + 1));
  }

 private:
  std::int64_t known_from_;
  std::int64_t ended_;
  std::map<std::string, std::set<std::int64_t>> steps_;  ///< by what was given
  std::set<std::int64_t> flat_;                          ///< steps in which a flat copy was
};

/// The steps at whose end buffers differ, with who said what.
std::map<std::int64_t, std::vector<RankSide>> steps_apart(const RingList& rings) {
  std::map<std::int64_t, std::map<std::string, RankList>> told;
  for (const RingReader* ring : rings) {
    for (auto place = ring->first_digest(); place < ring->digest_count(); ++place) {
      const auto digest = ring->digest(place);
      if (!digest || digest->buffers == 0 || digest->step < 1) continue;
      told[digest->step][std::to_string(digest->buffers)].push_back(ring->head().rank);
    }
  }
  std::map<std::int64_t, std::vector<RankSide>> apart;
  for (const auto& [step, ranks_of] : told) {
    if (ranks_of.size() > 1 && apart.size() < kMostStepsApart) apart[step] = as_sides(ranks_of);
  }
  return apart;
}

std::vector<GivenAfter> given_by(const RingList& rings) {
  std::vector<GivenAfter> given;
  for (const RingReader* ring : rings) given.emplace_back(*ring, rings.size());
  return given;
}

void keep(const std::set<std::string>& paths, ValuesDiffer& values) {
  const auto before = std::ssize(values.tensors);
  std::erase_if(values.tensors,
                [&paths](const DifferingTensor& one) { return !paths.contains(one.path); });
  values.differing -= before - std::ssize(values.tensors);
  values.module_path = common_module(values.tensors);
}
}  // namespace

bool leave_out_repaired(const RingList& rings, const Cohort& cohort, ValuesDiffer& values) {
  if (!values.of_buffers || values.step < 1 || values.tensors.empty()) return true;
  if (values.differing > std::ssize(values.tensors)) return true;  // some are not told by name
  if (std::ranges::any_of(cohort.counts, &RankCounts::evaluated)) return true;
  const std::vector<GivenAfter> given = given_by(rings);
  std::set<std::string> left;
  std::set<std::string> repaired;
  ValuesDiffer first_left = values;
  for (const auto& [step, sides] : steps_apart(rings)) {
    const ValuesDiffer at =
        compare_values(rings, {.field = DigestField::kBuffers, .step = step, .sides = sides});
    for (const DifferingTensor& one : at.tensors) {
      const auto was_left_out = [&](const GivenAfter& rank) {
        return rank.was_left_out(one.path, step);
      };
      const auto was_given = [&](const GivenAfter& rank) { return rank.was_given(one.path, step); };
      if (std::ranges::any_of(given, was_left_out)) {
        if (left.empty()) first_left = at;
        left.insert(one.path);
      } else if (std::ranges::all_of(given, was_given)) {
        repaired.insert(one.path);
      }
    }
  }
  // Of those that differ after the last step alone nothing is known.
  for (const DifferingTensor& one : values.tensors) {
    if (!repaired.contains(one.path)) left.insert(one.path);
  }
  keep(left, values);
  if (!values.tensors.empty() || left.empty()) return !values.tensors.empty();
  values = std::move(first_left);
  keep(left, values);
  return true;
}

}  // namespace ddpscope
