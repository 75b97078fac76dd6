#include "exchange/fixed_compare.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "exchange/sides.h"
#include "exchange/sketch_compare.h"
#include "exchange/tensor_compare.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kWholeRun = std::numeric_limits<std::int64_t>::max();
using ValuesByStep = std::map<std::int64_t, std::string>;

/// Of all parameters of a model, by the last word of each step. Empty where a gradient reached it
/// or it did not run before some backward.
ValuesByStep values_of(const RingReader& ring, std::uint32_t model, const TensorList& list) {
  const std::vector<Blob>& blobs = ring.blobs();
  if (!is_never_trained(blobs, model, kWholeRun)) return {};
  std::set<std::int64_t> ran;
  for (const Blob& blob : blobs) {
    if (blob.kind == BlobKind::kRan && blob.number == model) ran.insert(blob.step);
  }
  const std::size_t bytes = 8 * in_told_order(list, /*with_buffers=*/false).size();
  ValuesByStep values;
  for (const Blob& blob : blobs) {
    if (blob.kind != BlobKind::kFingerprints || blob.number != model || blob.step < 0) continue;
    if (blob.step > 0 && !ran.contains(blob.step)) return {};
    Hash hash;
    hash.add(blob.bytes.substr(0, bytes));
    values[blob.step] = std::to_string(hash.value());
  }
  return values;
}

std::optional<DigestsDiffer> fixed_difference(const RingList& rings, std::uint32_t model,
                                              const TensorList& list) {
  std::map<std::int64_t, std::map<std::string, RankList>> steps;
  for (const RingReader* ring : rings) {
    const auto lists = lists_at(ring->blobs(), kWholeRun);
    const auto own = lists.find(model);
    if (own == lists.end() || hash_of(own->second) != hash_of(list)) return std::nullopt;
    for (const auto& [step, value] : values_of(*ring, model, list)) {
      steps[step][value].push_back(ring->head().rank);
    }
  }
  DigestsDiffer difference{.field = DigestField::kParameters};
  for (const auto& [step, ranks_of] : steps) {
    std::size_t told = 0;
    for (const auto& [value, ranks] : ranks_of) told += ranks.size();
    if (told < rings.size()) continue;
    if (ranks_of.size() > 1) {
      if (difference.equal_until < 0) return std::nullopt;
      difference.step = step;
      difference.sides = as_sides(ranks_of);
      return difference;
    }
    difference.equal_until = step;
  }
  return std::nullopt;
}
}  // namespace

std::optional<ValuesDiffer> compare_fixed(const RingList& rings) {
  if (rings.size() < 2) return std::nullopt;
  for (const auto& [model, list] : lists_at(rings.front()->blobs(), kWholeRun)) {
    const auto difference = fixed_difference(rings, model, list);
    if (!difference) continue;
    ValuesDiffer values = compare_values(rings, *difference);
    std::erase_if(values.tensors, [&list](const DifferingTensor& tensor) {
      return tensor.model != list.model || tensor.requires_grad;
    });
    if (values.tensors.empty()) continue;
    values.differing = std::ssize(values.tensors);
    values.compared = std::ssize(in_told_order(list, /*with_buffers=*/false));
    values.runs_on_all = true;
    estimate_difference(rings, *difference, values);
    return values;
  }
  return std::nullopt;
}

}  // namespace ddpscope
