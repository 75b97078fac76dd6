#include "checks/constant_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "checks/finding_text.h"
#include "checks/loss_ops.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"
#include "model/returned_gradients.h"

namespace ddpscope {
namespace {
constexpr int kMaxDistance = 7;  // the last 8 operators before the root
constexpr std::size_t kMostRecords = 64;
constexpr std::array<std::string_view, 4> kSums = {"aten::add", "aten::add_", "aten::sub",
                                                   "aten::sub_"};

bool is_one_number(const OpTrace::Output& output) {
  return std::ranges::all_of(output.shape, [](std::int64_t size) { return size == 1; });
}

/// The call of autograd::grad() of which this was computed; null: of others alone, or the program
/// says with detach() that it is a constant.
const OpTrace::Record* returned_gradients_behind(const OpTrace::Record& term,
                                                 const OpTrace& trace) {
  std::vector<const OpTrace::Record*> open = {&term};
  std::set<const OpTrace::Record*> seen = {&term};
  const OpTrace::Record* asked = nullptr;
  for (std::size_t at = 0; at < open.size() && open.size() < kMostRecords; ++at) {
    if (open[at]->op == "aten::detach") return nullptr;
    if (open[at]->op == kReturnedGradients) asked = open[at];
    for (const TensorId id : open[at]->inputs) {
      const OpTrace::Record* made = trace.record_of(id);
      if (made != nullptr && seen.insert(made).second) open.push_back(made);
    }
  }
  return asked;
}

/// What a sum adds to a loss that has a gradient path; null if there is no such term.
const OpTrace::Record* constant_term(const OpTrace::Record& sum, const OpTrace& trace) {
  const bool is_sum = std::ranges::find(kSums, sum.op) != kSums.end();
  if (!is_sum || !sum.grad_mode || sum.inputs.size() < 2 || sum.outputs.empty()) return nullptr;
  if (!is_one_number(sum.outputs.front()) || !sum.outputs.front().requires_grad) return nullptr;
  const OpTrace::Record* term = nullptr;
  for (const TensorId id : sum.inputs) {
    const OpTrace::Record* made =
        output_of(sum, id) == nullptr ? trace.record_of(id) : trace.record_before(sum, id);
    const OpTrace::Output* output = made == nullptr ? nullptr : output_of(*made, id);
    if (output == nullptr) return nullptr;  // a parameter, as where it is updated
    if (!output->requires_grad && is_one_number(*output)) term = made;
  }
  return term;
}

Finding term_finding(const OpTrace::Record& sum, const OpTrace::Record& term,
                     const OpTrace::Record& asked, const RunState& state) {
  Finding finding = finding_at(sum, state);
  finding.severity = Severity::kWarning;
  finding.what =
      "a term of the loss that was computed of results of autograd::grad() has no gradient path: "
      "it trains nothing";
  finding.why = fmt::format(
      "autograd::grad() returned {} without create_graph: to this backward that is a constant",
      shape_text(asked.outputs.front().shape));
  finding.fixes = {
      {"autograd::grad(outputs, inputs, grad_outputs, /*retain_graph=*/true, "
       "/*create_graph=*/true)",
       Applicability::kLikely},
      {"if it is only printed, leave it out of the loss", Applicability::kNeedsDecision}};
  add_site("called", term.stack, state, finding);
  add_site("created", asked.stack, state, finding);
  finding.facts = {{fact::kCause, std::string("no_create_graph")}, {fact::kCutOp, asked.op}};
  return finding;
}
}  // namespace

void ConstantTerms::on(const BackwardEvent& event, const RunState& state, Findings& findings) {
  if (!event.surveyed || !event.accumulates) return;
  for (const auto* sum : records_before(state.trace(), event.roots, kMaxDistance)) {
    const OpTrace::Record* term = constant_term(*sum, state.trace());
    const OpTrace::Record* asked =
        term == nullptr ? nullptr : returned_gradients_behind(*term, state.trace());
    if (asked == nullptr) continue;
    const auto [entry, is_new] = seen_.try_emplace(sum->path, Seen{event.at.step});
    if (is_new || entry->second.told || entry->second.first_step == event.at.step) continue;
    entry->second.told = true;
    findings.push_back(term_finding(*sum, *term, *asked, state));
    findings.back().first_step = entry->second.first_step;
  }
}

}  // namespace ddpscope
