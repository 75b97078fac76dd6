#pragma once

#include <ddpscope/ops/communicator.h>
#include <torch/library.h>

#include <string>

namespace ddpscope::batch_norm {

/// What a call of aten::batch_norm was given; undefined where it was given none.
struct OperatorCall {
  const at::Tensor& input;
  at::Tensor weight;
  at::Tensor running_mean;
};

/// The layer whose call runs over all ranks of a group; without a group it runs as ever.
struct LayerOverRanks {
  std::string name;
  CommunicatorPtr communicator;
};
/// Called for each call in training, on the thread that calls. What it throws reaches the caller.
using FindLayer = LayerOverRanks (*)(const OperatorCall& call);

/// While it lives, calls of aten::batch_norm that `find` finds run as `sync_batch_norm`; all others
/// compute what they do without it. Calls in InferenceMode never come here. One at a time.
class Override {
 public:
  explicit Override(FindLayer find);
  ~Override();
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;

 private:
  torch::Library cpu_;
  torch::Library cuda_;
};

/// Of `set_batch_norm_communicator`.
CommunicatorPtr chosen_communicator();

}  // namespace ddpscope::batch_norm
