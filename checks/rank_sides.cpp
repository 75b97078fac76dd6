#include "checks/rank_sides.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/rank_words.h"

namespace ddpscope {

std::string sides_text(const std::vector<RankSide>& sides) {
  std::string text;
  for (const RankSide& side : sides) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", side.value, rank_words(side.ranks));
  }
  return text;
}

std::string since_text(const DigestsDiffer& differ) {
  const bool is_exact = differ.equal_until < 0 || differ.equal_until + 1 >= differ.step;
  return is_exact ? fmt::format("step {}", differ.step)
                  : fmt::format("one of steps {}-{}", differ.equal_until + 1, differ.step);
}

std::vector<FactScalar> per_side(const std::vector<RankSide>& sides) {
  std::vector<FactScalar> list;
  for (const RankSide& side : sides) {
    list.emplace_back(fmt::format("{}: {}", rank_ranges(side.ranks), side.value));
  }
  return list;
}

std::vector<FactScalar> as_fact(const RankList& ranks) { return {ranks.begin(), ranks.end()}; }

RankList all_of(const std::vector<RankSide>& sides) {
  RankList all;
  for (const RankSide& side : sides) all.insert(all.end(), side.ranks.begin(), side.ranks.end());
  std::ranges::sort(all);
  return all;
}

RankList minority_of(const std::vector<RankSide>& sides) {
  const auto size = [](const RankSide& side) { return side.ranks.size(); };
  const auto largest = std::ranges::max_element(sides, {}, size);
  if (largest == sides.end()) return {};
  const auto as_large = std::ranges::count(sides, largest->ranks.size(), size);
  if (as_large > 1) return all_of(sides);
  std::vector<RankSide> others(sides.begin(), sides.end());
  others.erase(others.begin() + (largest - sides.begin()));
  return all_of(others);
}

std::string minority_words(const std::vector<RankSide>& sides) {
  const RankList minority = minority_of(sides);
  if (minority.empty() || minority == all_of(sides)) return "";
  return fmt::format("{} {} unlike the others; ", rank_words(minority),
                     minority.size() == 1 ? "is" : "are");
}

Severity severity_in(const Cohort& cohort) {
  if (cohort.averages) return Severity::kError;
  const bool are_alone = cohort.equal_at_start && !cohort.exchanges_tensors;
  return are_alone ? Severity::kWarning : Severity::kNote;
}

std::string severity_words(const Cohort& cohort) {
  if (severity_in(cohort) == Severity::kError) return "";
  if (severity_in(cohort) == Severity::kWarning && cohort.broadcasts_at_start) {
    return "; the weights were broadcast before the first step, and nothing as large was exchanged "
           "between the ranks since";
  }
  if (severity_in(cohort) == Severity::kWarning) {
    return "; the ranks began as equal replicas, and no exchange of gradients or weights between "
           "them was seen";
  }
  return "; no collective of these ranks was seen to average gradients between their backward and "
         "the step with them";
}

bool are_parts(const std::vector<RankSide>& sides, const Cohort& cohort) {
  return sides.size() > 1 && std::ranges::all_of(sides, [&cohort](const RankSide& side) {
           return std::ranges::count(cohort.parts, side.ranks) > 0;
         });
}

Finding finding_on(const RankList& ranks, std::int64_t step) {
  Finding finding;
  finding.rank = ranks.empty() ? 0 : ranks.front();
  finding.ranks = ranks;
  finding.step = step;
  finding.phase = step == 0 ? Phase::kInit : Phase::kOptimizer;
  return finding;
}

void set_place(Finding& finding, const std::string& model, const std::string& path) {
  const std::size_t dot = path.rfind('.');
  finding.model = model;
  finding.module_path = dot == std::string::npos ? "" : path.substr(0, dot);
  finding.subject = dot == std::string::npos ? path : path.substr(dot + 1);
}

}  // namespace ddpscope
