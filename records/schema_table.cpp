#include "records/schema_table.h"

#include <algorithm>
#include <array>

namespace ddpscope {
namespace {
using std::string_view;

constexpr SchemaMember member_row(string_view owner, string_view name, string_view type) {
  const bool is_optional = name.starts_with('-');
  return {owner, is_optional ? name.substr(1) : name, type, !is_optional};
}

constexpr auto kSchemaRows = std::to_array<SchemaMember>({
#define DDPSCOPE_MEMBER(owner, name, type) member_row(owner, name, type),
#include "records/schema.def"
#undef DDPSCOPE_MEMBER
});

constexpr auto kSeverityWords = std::to_array<string_view>({"error", "warning", "note"});
constexpr auto kConfidenceWords = std::to_array<string_view>({"high", "medium", "low"});
constexpr auto kEvidenceWords =
    std::to_array<string_view>({"established", "supported", "hypothesis", "undecided"});
constexpr auto kCausalRoleWords = std::to_array<string_view>({"initiating", "cascade", "unknown"});
constexpr auto kPhaseWords =
    std::to_array<string_view>({"init", "forward", "backward", "reduce", "optimizer", "exit"});
constexpr auto kApplicabilityWords =
    std::to_array<string_view>({"safe", "likely", "needs-decision"});
constexpr auto kSiteRoleWords =
    std::to_array<string_view>({"saved", "changed", "used", "created", "registered", "called"});
constexpr auto kSiteStateWords =
    std::to_array<string_view>({"complete", "evicted", "unsymbolized"});
constexpr auto kSuppressionWords = std::to_array<string_view>({"used", "unused", "expired"});
constexpr auto kCoverageWords = std::to_array<string_view>({"passed", "failed", "blocked"});
constexpr auto kSourceWords = std::to_array<string_view>({"live", "fallback", "absent"});

struct WordSet {
  string_view type;
  std::span<const string_view> words;
};
constexpr auto kWordSets = std::to_array<WordSet>({{"severity", kSeverityWords},
                                                   {"confidence", kConfidenceWords},
                                                   {"evidence_status", kEvidenceWords},
                                                   {"causal_role", kCausalRoleWords},
                                                   {"phase", kPhaseWords},
                                                   {"applicability", kApplicabilityWords},
                                                   {"site_role", kSiteRoleWords},
                                                   {"site_state", kSiteStateWords},
                                                   {"suppression_state", kSuppressionWords},
                                                   {"coverage_state", kCoverageWords},
                                                   {"source_state", kSourceWords}});
}  // namespace

std::span<const SchemaMember> schema_members() { return kSchemaRows; }

const SchemaMember* find_member(string_view owner, string_view name) {
  const SchemaMember* inherited = nullptr;
  for (const SchemaMember& row : kSchemaRows) {
    if (row.owner != owner) continue;
    if (row.name == name) return &row;
    if (row.name.empty()) inherited = &row;
  }
  return inherited == nullptr ? nullptr : find_member(inherited->type, name);
}

bool is_owner(string_view type) {
  return std::ranges::find(kSchemaRows, type, &SchemaMember::owner) != kSchemaRows.end();
}

std::span<const string_view> words_of_type(string_view type) {
  const auto found = std::ranges::find(kWordSets, type, &WordSet::type);
  return found == kWordSets.end() ? std::span<const string_view>() : found->words;
}

bool take_nullable(string_view& type) {
  if (!type.ends_with('?')) return false;
  type.remove_suffix(1);
  return true;
}

}  // namespace ddpscope
