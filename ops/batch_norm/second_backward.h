#pragma once

#include "ops/batch_norm/passes.h"

namespace ddpscope::batch_norm {

/// What a first backward read and found.
struct FirstBackward {
  NormTensors tensors;
  at::Tensor dy;
  at::Tensor sums;  ///< Gradients::sums
};

/// Gradients that arrive for those that the first backward gave.
struct Arriving {
  at::Tensor input;   ///< over the batch
  at::Tensor weight;  ///< (C), likewise bias
  at::Tensor bias;
};

struct SecondGradients {
  at::Tensor dy;
  at::Tensor x;
  at::Tensor weight;  ///< of this rank
};

/// The derivative of `backward_of`, in Double and by operators of LibTorch; one exchange.
SecondGradients second_backward_of(const FirstBackward& first, const Arriving& arriving,
                                   const Call& call);

}  // namespace ddpscope::batch_norm
