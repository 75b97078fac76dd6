#pragma once

#include <memory>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "samples/support/process_group.h"

namespace loops {

constexpr std::int64_t kBucketBytes = 4096;

/// Averages the gradients of `parameters` over the processes of `all`, in buckets.
inline std::shared_ptr<c10d::Reducer> make_reducer(const samples::Store& store,
                                                   const samples::Group& all,
                                                   const std::vector<at::Tensor>& parameters) {
  if (!all) throw std::runtime_error("--way reduce needs several processes");
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, all->getRank(), all->getSize());
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, all);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  const std::vector<bool> dense(parameters.size(), false);
  const auto assigned = c10d::compute_bucket_assignment_by_size(parameters, {kBucketBytes}, dense);
  // The gradients of the last layers come first.
  const std::vector<std::vector<std::size_t>> buckets(std::get<0>(assigned).rbegin(),
                                                      std::get<0>(assigned).rend());
  const auto make = [](const auto&... arguments) {
    using Sizes = std::vector<std::int64_t>;  // LibTorch 2.8 knows one size for all buckets
    if constexpr (std::is_constructible_v<c10d::Reducer, decltype(arguments)..., Sizes>) {
      return std::make_shared<c10d::Reducer>(arguments..., Sizes());
    } else {
      return std::make_shared<c10d::Reducer>(arguments...);
    }
  };
  return make(parameters, buckets, group, dense, kBucketBytes, /*find_unused_parameters=*/false,
              /*gradient_as_bucket_view=*/false, std::unordered_map<std::size_t, std::string>(),
              kBucketBytes, /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false);
}

}  // namespace loops
