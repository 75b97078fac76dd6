#pragma once

#include <string>
#include <string_view>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// `forward`, `backward`, `second backward` or `layers`; `another call` of what is no exchange of a
/// synchronised batch norm.
std::string_view phase_of_norm(const ComparedCall& call);

/// `forward of stage3.bn1, its call 9, with 64 channels`; what the comparison of layers was noted
/// under, in quotes; another collective as `call_words` tells it.
std::string call_of_norm(const ComparedCall& call, bool with_size);

/// Whether it is the comparison of lists of layers.
bool is_list_of_layers(const ComparedCall& call);

/// Where the ranks of one side alone compare their lists of layers, and those of the other run
/// without the setting `sync_batch_norm`, that is what is told.
void tell_settings(const NormSettings& settings, const CallSide& one, const CallSide& other,
                   Finding& finding);

}  // namespace ddpscope
