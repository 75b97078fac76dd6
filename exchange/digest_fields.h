#pragma once

#include <array>
#include <optional>
#include <string>

#include "model/rank_compare_event.h"
#include "model/step_digest.h"

namespace ddpscope {

inline constexpr std::size_t kDigestFields = 18;

/// The fields in the order of DigestField as words to be compared; nothing where a rank says
/// nothing of a field.
std::array<std::optional<std::uint64_t>, kDigestFields> words_of(const StepDigest& digest);

/// `0.1`, `12`, or a hash in hex.
std::string text_of(DigestField field, std::uint64_t word);

}  // namespace ddpscope
