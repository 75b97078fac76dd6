#pragma once

#include <ddpscope/ops/op_facts.h>

namespace ddpscope {

/// Null where nobody watches.
OpObserver* op_observer() noexcept;

}  // namespace ddpscope
