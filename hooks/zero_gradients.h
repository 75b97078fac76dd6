#pragma once

#include <vector>

#include "hooks/value_sample.h"
#include "model/optimizer_event.h"

namespace at {
class Tensor;
}
namespace torch::optim {
class OptimizerParamGroup;
}

namespace ddpscope {

class Capture;
using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;

/// The members of an optimizer whose gradients are defined and all zero when it steps, and a sample
/// of their values from before the step. Reads dense CPU tensors only, up to the first value that
/// is not zero, and at most 16 MiB a step; larger gradients are not tested.
class ZeroGradients {
 public:
  /// `first` is where the last step of this optimizer stopped reading; a step begins there.
  void find(Capture& capture, const ParamGroups& groups, std::size_t& first);
  /// After the step: what was found, and how far the step moved it.
  std::vector<ZeroGradient> moved(Capture& capture, const ParamGroups& groups) const;

 private:
  struct Member {
    std::size_t group = 0;
    std::size_t index = 0;
    TensorId tensor = 0;
    ValueSample before;
  };

  std::vector<Member> members_;
};

/// Weight decay, momentum and rate by group; empty when the options of a group are of an own class.
std::vector<GroupOptions> options_of(const ParamGroups& groups);
/// Of the same; allocates nothing.
std::uint64_t hash_options(const ParamGroups& groups);
/// 1 where all learning rates are 0, 2 where one is below, else 0.
std::uint64_t kind_of_rates(const std::vector<GroupOptions>& groups);

}  // namespace ddpscope
