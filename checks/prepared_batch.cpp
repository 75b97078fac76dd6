#include "checks/prepared_batch.h"

#include <fmt/format.h>

#include "checks/loss_ops.h"
#include "checks/nonfinite_fixes.h"
#include "checks/site_text.h"

namespace ddpscope {
namespace {
bool is_cast_to_half(const OpTrace::Record& record, TensorId source, const RunState& state) {
  const TensorState* tensor = state.tensor(source);
  const bool is_half = tensor != nullptr && tensor->info.dtype == "float16";
  return is_half && (record.op == "aten::to" || record.op == "aten::_to_copy");
}
}  // namespace

void add_preparation(TensorId source, const RunState& state, Finding& finding) {
  const OpTrace::Record* made = state.trace().record_of(source);
  if (made == nullptr) return;
  const bool is_half = is_cast_to_half(*made, source, state);
  if (!is_half) made = maker_behind_views(state.trace(), source);
  if (made == nullptr || made->inputs.empty()) return;
  if (!is_half && !has_fix_of_nonfinite(made->op)) return;
  const std::string line = add_site("created", made->stack, state, finding);
  finding.why = fmt::format("{} returned it in this step{}{}; {}", made->op,
                            line.empty() ? "" : " (" + line + ")",
                            is_half ? ", and float16 ends at 65504" : "", finding.why);
  const std::string_view fix =
      is_half ? "scale or clamp it before the cast, or use bfloat16" : fix_of_nonfinite(made->op);
  finding.fixes.insert(finding.fixes.begin(), {std::string(fix), Applicability::kLikely});
}

}  // namespace ddpscope
