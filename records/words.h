#pragma once

#include <optional>
#include <string_view>

#include "model/finding.h"
#include "model/run_record.h"

namespace ddpscope {

/// The words of the report format for each enumerator: `error`, `needs-decision`, `backward`, …
std::string_view word(Severity value);
std::string_view word(Confidence value);
std::string_view word(EvidenceStatus value);
std::string_view word(CausalRole value);
std::string_view word(Phase value);
std::string_view word(Applicability value);
std::string_view word(SiteState value);
std::string_view word(SuppressionState value);

/// The enumerator of a word, or nothing: `from_word<Severity>("error")`.
template <typename Enum>
std::optional<Enum> from_word(std::string_view text);
template <>
std::optional<Severity> from_word(std::string_view text);
template <>
std::optional<Confidence> from_word(std::string_view text);
template <>
std::optional<EvidenceStatus> from_word(std::string_view text);
template <>
std::optional<CausalRole> from_word(std::string_view text);
template <>
std::optional<Phase> from_word(std::string_view text);
template <>
std::optional<Applicability> from_word(std::string_view text);
template <>
std::optional<SiteState> from_word(std::string_view text);
template <>
std::optional<SuppressionState> from_word(std::string_view text);

}  // namespace ddpscope
