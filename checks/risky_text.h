#pragma once

#include "model/finding.h"
#include "model/value_event.h"

namespace ddpscope {

/// Whether the values are at the edge of the operator's domain by the rule that the event names.
bool is_at_edge(const RiskyInputEvent& event);
/// Adds what was measured, why that is wrong and what to do.
void describe_edge(const RiskyInputEvent& event, Finding& finding);

}  // namespace ddpscope
