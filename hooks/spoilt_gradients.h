#pragma once

#include "hooks/tensor_registry.h"

namespace ddpscope {

class Capture;

/// A gradient that is not finite has reached this leaf.
void note_spoilt(TensorSlot& leaf);

/// An optimizer begins to step: tells which of those gradients the program has repaired since.
void tell_repaired(Capture& capture);

}  // namespace ddpscope
