#pragma once

#include <string>
#include <string_view>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// `all_reduce`
std::string_view call_word(CollectiveKind kind);
/// `sum`; nothing where the call reduces nothing.
std::string_view reduce_word(ReduceKind reduce);

/// `all_reduce float32[4096] of conv1.weight.grad (in layer2)`; with its operation if asked for.
std::string call_words(const ComparedCall& call, bool with_reduce);
/// `all_reduce 482 of conv1.weight.grad`
std::string numbered_call(const ComparedCall& call);

/// The same with what became of it: `..., which was not seen to return`.
std::string last_call_words(const RankStand& stand);

/// `250 ms`, `1.5 s` or `30 s`.
std::string duration_words(std::int64_t ms);

/// Who issued another call than expected: the smaller side. Of two of one size the one that does
/// not repeat what it did before, if only one does.
const CallSide& odd_side(const CallsDiffer& difference);
/// The largest of the others.
const CallSide& usual_side(const CallsDiffer& difference, const CallSide& odd);

/// Of differences in several groups: what others differ in later follows from the first.
bool is_earlier(const CallsDiffer& a, const CallsDiffer& b);
/// Whether some rank was in an exchange of a synchronised batch norm.
bool is_of_norm(const CallsDiffer& difference);

/// Where the tensor of a call is registered, `layer2` and `weight` of `layer2.weight.grad`; the
/// module in which it was issued where the tensor is not known.
void set_place(Finding& finding, const ComparedCall& call);

}  // namespace ddpscope
