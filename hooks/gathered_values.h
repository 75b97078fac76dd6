#pragma once

#include "hooks/capture.h"
#include "hooks/collective_watch.h"
#include "model/hot_code.h"

namespace ddpscope {

/// On survey steps, what an all-gather writes of values that have a gradient path, or lie in the
/// memory of such: from here on the operators that read it are told, and the event names it.
DDPSCOPE_HOT void follow_gathered(Capture& capture, const CallFacts& facts, CollectiveEvent& event);

}  // namespace ddpscope
