#include "exchange/new_tensors.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "exchange/tensor_compare.h"

namespace ddpscope {

bool are_new(const RingList& rings, const ValuesDiffer& values) {
  if (values.equal_until < 0 || values.tensors.empty()) return false;
  std::set<std::pair<std::string_view, std::string_view>> differing;
  for (const DifferingTensor& tensor : values.tensors) differing.emplace(tensor.model, tensor.path);
  const auto lists_any = [&differing](const auto& entry) {
    const TensorList& list = entry.second;
    return std::ranges::any_of(list.tensors, [&](const ListedTensor& tensor) {
      return differing.contains({list.model, tensor.path});
    });
  };
  return std::ranges::none_of(sides_of_lists(rings, values.sides), [&](const SideOfLists& side) {
    return std::ranges::any_of(lists_at(side.ring->blobs(), values.step - 1), lists_any);
  });
}

}  // namespace ddpscope
