#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exchange/tensor_compare.h"

namespace ddpscope {

/// By place among the registered parameters: why one got no gradient, in a word of
/// model/missing_causes.h; empty where it got one, or the cause is not known. Empty bytes where no
/// cause is known.
std::string encode_missing(const std::vector<std::string>& causes);

/// The word at a place of such bytes; nothing where they are shorter or say none.
std::optional<std::string> missing_at(std::string_view bytes, std::size_t place);

/// Asks the rings of the ranks that lack gradients for the causes.
void add_causes(const RingList& rings, GradientSetsDiffer& gradients);

}  // namespace ddpscope
