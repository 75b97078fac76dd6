#include "records/words.h"

#include <cstddef>
#include <span>

namespace ddpscope {
namespace {

// In the order of the enumerators.
constexpr std::string_view kSeverity[] = {"note", "warning", "error"};
constexpr std::string_view kConfidence[] = {"low", "medium", "high"};
constexpr std::string_view kEvidence[] = {"undecided", "hypothesis", "supported", "established"};
constexpr std::string_view kRole[] = {"unknown", "initiating", "cascade"};
constexpr std::string_view kPhase[] = {"init",   "forward",   "backward",
                                       "reduce", "optimizer", "exit"};
constexpr std::string_view kApplicability[] = {"safe", "likely", "needs-decision"};
constexpr std::string_view kSiteState[] = {"complete", "evicted", "unsymbolized"};
constexpr std::string_view kSuppressionState[] = {"unused", "used", "expired"};

template <typename Enum>
std::string_view at(std::span<const std::string_view> words, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < words.size() ? words[index] : words[0];
}

template <typename Enum>
std::optional<Enum> find(std::span<const std::string_view> words, std::string_view text) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view word(Severity value) { return at(kSeverity, value); }
std::string_view word(Confidence value) { return at(kConfidence, value); }
std::string_view word(EvidenceStatus value) { return at(kEvidence, value); }
std::string_view word(CausalRole value) { return at(kRole, value); }
std::string_view word(Phase value) { return at(kPhase, value); }
std::string_view word(Applicability value) { return at(kApplicability, value); }
std::string_view word(SiteState value) { return at(kSiteState, value); }
std::string_view word(SuppressionState value) { return at(kSuppressionState, value); }

template <>
std::optional<Severity> from_word(std::string_view text) {
  return find<Severity>(kSeverity, text);
}
template <>
std::optional<Confidence> from_word(std::string_view text) {
  return find<Confidence>(kConfidence, text);
}
template <>
std::optional<EvidenceStatus> from_word(std::string_view text) {
  return find<EvidenceStatus>(kEvidence, text);
}
template <>
std::optional<CausalRole> from_word(std::string_view text) {
  return find<CausalRole>(kRole, text);
}
template <>
std::optional<Phase> from_word(std::string_view text) {
  return find<Phase>(kPhase, text);
}
template <>
std::optional<Applicability> from_word(std::string_view text) {
  return find<Applicability>(kApplicability, text);
}
template <>
std::optional<SiteState> from_word(std::string_view text) {
  return find<SiteState>(kSiteState, text);
}
template <>
std::optional<SuppressionState> from_word(std::string_view text) {
  return find<SuppressionState>(kSuppressionState, text);
}

}  // namespace ddpscope
