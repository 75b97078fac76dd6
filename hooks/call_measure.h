#pragma once

#include "hooks/collective_watch.h"
#include "model/hot_code.h"

namespace ddpscope {

/// How much a call was given, and in how many storages and on how many devices. An undefined tensor
/// ends the count.
DDPSCOPE_HOT void measure(const CallFacts& facts, CollectiveEvent& event);

}  // namespace ddpscope
