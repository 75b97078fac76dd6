#pragma once

#include <span>

#include "hooks/tensor_registry.h"
#include "hooks/zero_gradients.h"
#include "model/collective_event.h"

namespace ddpscope {

class Capture;

/// A gradient that is not finite has reached this leaf.
void note_spoilt(TensorSlot& leaf);

/// An optimizer begins to step: tells which of those gradients the program has repaired since, and
/// which of its members' gradients the program has spoilt, that had arrived finite.
void tell_repaired_or_spoilt(Capture& capture, const ParamGroups& groups);

/// Tells those that it has spoilt before they are averaged over ranks: of the gradients that this
/// sum is given, or, where it is given a buffer of them, of those that `leaves` have.
void tell_spoilt_before(Capture& capture, const CollectiveEvent& average,
                        std::span<const TensorId> leaves);

}  // namespace ddpscope
