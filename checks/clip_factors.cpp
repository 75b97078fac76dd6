#include "checks/clip_factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
double factor_of(const RankSide& side) { return std::strtod(side.value.c_str(), nullptr); }

bool is_smaller(const RankSide& a, const RankSide& b) { return factor_of(a) < factor_of(b); }

std::optional<double> number_in(const Finding& finding, std::string_view key) {
  const FactValue* value = find_fact(finding, key);
  const auto* number = value == nullptr ? nullptr : std::get_if<double>(value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

bool is_before_average(const Finding& finding, const Cohort& cohort) {
  return finding.id == "clip-before-reduce" && number_in(finding, fact::kFactorMin).has_value() &&
         number_in(finding, fact::kMaxNorm).has_value() &&
         std::ranges::binary_search(cohort.ranks, finding.rank);
}

/// The factors are those of whole steps: of one clip each, where that of the finding's rank is one
/// that it saw.
bool is_of_one_clip(const DigestsDiffer& differ, const Finding& finding) {
  const auto own = std::ranges::find_if(differ.sides, [&finding](const RankSide& side) {
    return std::ranges::find(side.ranks, finding.rank) != side.ranks.end();
  });
  constexpr double kRounding = 1e-6;
  return own != differ.sides.end() &&
         factor_of(*own) >= *number_in(finding, fact::kFactorMin) * (1 - kRounding);
}

std::vector<FactScalar> norms_per_rank(const DigestsDiffer& differ, double limit) {
  std::vector<RankSide> norms;
  for (const RankSide& side : differ.sides) {
    const double factor = factor_of(side);
    const std::string norm =
        factor < 1 ? fmt::format("{:.4g}", limit / factor) : fmt::format("at most {:.4g}", limit);
    norms.push_back({norm, side.ranks});
  }
  return per_side(norms);
}

void tell(const DigestsDiffer& differ, Finding& finding) {
  const double limit = *number_in(finding, fact::kMaxNorm);
  const bool of_one_clip = is_of_one_clip(differ, finding);
  add_factors(differ, finding);
  if (of_one_clip) set_fact(finding, fact::kNormsPerRank, norms_per_rank(differ, limit));
  const auto [least, most] = std::ranges::minmax_element(differ.sides, is_smaller);
  finding.why += fmt::format("; in step {} the factors were {:.2g} ({}) to {:.2g} ({})",
                             differ.step, factor_of(*least), rank_words(least->ranks),
                             factor_of(*most), rank_words(most->ranks));
}
}  // namespace

std::string factors_text(const std::vector<RankSide>& sides) {
  std::vector<RankSide> rounded = sides;
  for (RankSide& side : rounded) side.value = fmt::format("{:.4g}", factor_of(side));
  return sides_text(rounded);
}

void add_factors(const DigestsDiffer& differ, Finding& finding) {
  const auto [least, most] = std::ranges::minmax_element(differ.sides, is_smaller);
  set_fact(finding, fact::kFactorMin, factor_of(*least));
  set_fact(finding, fact::kFactorMax, factor_of(*most));
  set_fact(finding, fact::kValuePerRank, per_side(differ.sides));
}

void tell_clip_factors(const RanksComparedEvent& run, const std::vector<Finding*>& all) {
  for (const Cohort& cohort : run.cohorts) {
    const auto differ =
        std::ranges::find(cohort.digests, DigestField::kClipFactor, &DigestsDiffer::field);
    if (differ == cohort.digests.end() || differ->sides.empty()) continue;
    for (Finding* finding : all) {
      if (is_before_average(*finding, cohort)) tell(*differ, *finding);
    }
  }
}

}  // namespace ddpscope
