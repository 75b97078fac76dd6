#pragma once

#include <string>
#include <string_view>

#include "model/finding.h"
#include "model/value_event.h"

namespace ddpscope {

/// Whether the values are at the edge of the operator's domain by the rule that the event names.
bool is_at_edge(const RiskyInputEvent& event);
/// `input minimum is 0`: what put it at the edge.
std::string edge_text(const RiskyInputEvent& event, std::string_view is);
/// Adds what was measured, why that is wrong and what to do.
void describe_edge(const RiskyInputEvent& event, Finding& finding);

}  // namespace ddpscope
