#include "exchange/new_tensors.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "exchange/tensor_compare.h"

namespace ddpscope {

bool are_new(const RingList& rings, const ValuesDiffer& values) {
  if (values.equal_until < 0 || values.tensors.empty()) return false;
  std::set<std::pair<std::uint32_t, std::string_view>> differing;
  for (const DifferingTensor& tensor : values.tensors) {
    differing.emplace(tensor.model_number, tensor.path);
  }
  const auto lists_any = [&differing](const auto& entry) {
    const auto& [model, list] = entry;
    return std::ranges::any_of(list.tensors, [&, number = model](const ListedTensor& tensor) {
      return differing.contains({number, tensor.path});
    });
  };
  return std::ranges::none_of(sides_of_lists(rings, values.sides), [&](const SideOfLists& side) {
    return std::ranges::any_of(lists_at(side.ring->blobs(), values.step - 1), lists_any);
  });
}

}  // namespace ddpscope
