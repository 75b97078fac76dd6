#include "exchange/new_tensors.h"

#include <algorithm>

#include "exchange/tensor_compare.h"

namespace ddpscope {

bool are_new(const RingList& rings, const ValuesDiffer& values) {
  if (values.equal_until < 0 || values.tensors.empty()) return false;
  const auto is_listed = [&](const auto& entry) {
    const TensorList& list = entry.second;
    return std::ranges::any_of(values.tensors, [&list](const DifferingTensor& tensor) {
      return list.model == tensor.model &&
             std::ranges::find(list.tensors, tensor.path, &ListedTensor::path) !=
                 list.tensors.end();
    });
  };
  return std::ranges::none_of(sides_of_lists(rings, values.sides), [&](const SideOfLists& side) {
    return std::ranges::any_of(lists_at(side.ring->blobs(), values.equal_until), is_listed);
  });
}

}  // namespace ddpscope
