#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "exchange/digest_walk.h"
#include "exchange/tensor_list.h"

namespace ddpscope {

/// What one rank of each side of a difference left of its tensors, and all ranks of the side.
struct SideOfLists {
  const RingReader* ring = nullptr;
  RankList ranks;
};
std::vector<SideOfLists> sides_of_lists(const RingList& rings, const std::vector<RankSide>& sides);

/// The lists of a rank as they stood at the end of `step`, by the number of the model.
std::map<std::uint32_t, TensorList> lists_at(const std::vector<Blob>& blobs, std::int64_t step);

/// A list's tensors in the order in which gradients, fingerprints and sketches tell of them.
std::vector<const ListedTensor*> in_told_order(const TensorList& list, bool with_buffers);

/// The fingerprint at that place of a blob of them; 0 beyond its bytes, and where none was read.
std::uint64_t fingerprint_in(std::string_view bytes, std::size_t place);

/// The last of that kind and model up to `step`, or null.
const Blob* latest_blob(const std::vector<Blob>& blobs, BlobKind kind, std::uint32_t model,
                        std::int64_t step);

/// It is known of which parameters gradients arrived, and up to `until` it was of none, nor did an
/// optimizer step with any: a copy, kept by hand.
bool is_never_trained(const std::vector<Blob>& blobs, std::uint32_t model, std::int64_t until);

/// Finds the tensors behind what digests say, and fills `models`, `gradients` and `values`.
void compare_tensors(const RingList& rings, Cohort& cohort);

std::vector<ModelsDiffer> compare_models(const RingList& rings, const DigestsDiffer& difference);
GradientSetsDiffer compare_gradients(const RingList& rings, const DigestsDiffer& difference);
ValuesDiffer compare_values(const RingList& rings, const DigestsDiffer& difference);

/// The first step after that of `first` in which trainable parameters that all ranks have differ;
/// nothing where there is none.
std::optional<DigestsDiffer> later_difference(const RingList& rings, const DigestsDiffer& first);

/// The compared steps in which those were equal when it began.
std::vector<std::int64_t> steps_of_equal(const RingList& rings);

/// The deepest module above all of them; of several models their roots.
std::string common_module(std::span<const DifferingTensor> tensors);

/// Averages of weights that leave some of them out: fills `partly_equal_steps` and
/// `never_averaged`.
void compare_averaged_weights(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
