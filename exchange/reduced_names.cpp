#include "exchange/reduced_names.h"

#include "exchange/tensor_compare.h"

namespace ddpscope {

ReducedParameter ReducedNames::at(const ReducedPlace& place, std::int64_t step) {
  const TensorList& list = list_at(place.model, step);
  const auto order = in_told_order(list, /*with_buffers=*/false);
  if (place.parameter >= order.size()) return {};
  const ListedTensor& tensor = *order[place.parameter];
  return {.model = list.model, .path = tensor.path, .dtype = tensor.dtype};
}

bool ReducedNames::may_be_copied(const std::vector<ReducedPlace>& places, std::int64_t step) {
  const auto order = in_told_order(list_at(places.front().model, step), /*with_buffers=*/false);
  std::vector<std::uint64_t> sizes;
  for (const ReducedPlace& place : places) {
    if (place.parameter < order.size()) sizes.push_back(elements_of(*order[place.parameter]));
  }
  const std::uint64_t all = trained_elements(list_at(places.front().model, step));
  return sizes.empty() || calls_.may_hold(step, sizes, all);
}

bool ReducedNames::are_of_few_numbers(std::uint32_t model, std::int64_t step) {
  return calls_.have_fewer(step, trained_elements(list_at(model, step)) / 10);
}

void ReducedNames::tell_calls(std::uint32_t model, ReductionStep& step) {
  const std::uint64_t weights = trained_elements(list_at(model, step.step));
  step.reduce = calls_.reduce(step.step, weights / 10);
  step.to_one_rank = calls_.go_to_one_rank(step.step, weights / 10);
  step.to_all = calls_.go_to_all(step.step, weights / 10);
  step.of_parameters = calls_.are_of_registered(step.step, weights / 10 + 1);
  step.times_reduced = calls_.times_reduced(step.step);
  step.with_itself = calls_.most_ranks(step.step) == 1;
  step.brings_activations = calls_.may_bring_activations(step.step, weights);
  step.routes_activations = calls_.route_activations(step.step);
  step.shares_activations =
      calls_.are_overwritten(step.step) || among_.may_bring_activations(step.step, weights);
}

const TensorList& ReducedNames::list_at(std::uint32_t model, std::int64_t step) {
  const Blob* told = latest_blob(blobs_, BlobKind::kTensors, model, step);
  const auto [list, is_new] = lists_.try_emplace(told);
  if (is_new && told != nullptr) {
    list->second = decode_tensor_list(told->bytes).value_or(TensorList{});
  }
  return list->second;
}

}  // namespace ddpscope
