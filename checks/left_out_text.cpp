#include "checks/left_out_text.h"

#include <fmt/format.h>

#include "checks/finding_text.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr char kAddGroup[] = "optimizer.add_param_group(...) with these parameters";

/// The rank that sends them does not step them either.
bool is_stale(const LeftOut& kind) {
  return kind.is_sent_from_here && kind.sent_in.empty() && kind.written_by.empty();
}
}  // namespace

std::string why_left_out(const TensorGroup& group, const LeftOut& kind) {
  std::string why = kind.built_before
                        ? "registered after the optimizer was built"
                        : "the lists given to the optimizers do not name " + named_in(group) +
                              "; largest " + joined(largest_shapes(group.tensors));
  if (!kind.written_by.empty()) {
    why += fmt::format("; the program writes them itself with {}", kind.written_by);
  }
  if (!kind.sent_in.empty()) {
    why += fmt::format("; after step() ranks send them to each other in {}", kind.sent_in);
  }
  if (is_stale(kind)) {
    why += "; after step() this rank broadcasts them: what another rank steps of them is lost";
  }
  if (kind.is_fixed) why += "; they are in eval mode, in a part that no optimizer holds any of";
  if (kind.beside_sent) why += "; others like them are sent here by the ranks that step those";
  return why;
}

std::vector<Fix> fixes_for_left_out(const LeftOut& kind) {
  std::vector<Fix> fixes = {
      {"build the optimizer after the last change of the model", kLikely},
      {kAddGroup, kLikely},
      {"requires_grad_(false), if they are to stay as they are", kNeedsDecision}};
  if (!kind.built_before) fixes.erase(fixes.begin());
  if (kind.is_fixed) {
    fixes = {{"requires_grad_(false), if they are to stay as they are: backward then computes "
              "less",
              kLikely},
             {"train() and " + std::string(kAddGroup), kNeedsDecision}};
  }
  if (!kind.sent_in.empty()) {
    fixes = {{"none, where the ranks that send them step them", kNeedsDecision},
             {kAddGroup, kNeedsDecision}};
  }
  if (is_stale(kind)) {
    const Fix from_owner = {"broadcast each from the rank whose optimizer steps it, if one does",
                            kind.beside_sent ? kLikely : kNeedsDecision};
    fixes.insert(kind.beside_sent ? fixes.begin() : fixes.end(), from_owner);
  }
  if (kind.beside_sent && !is_stale(kind)) {
    fixes.insert(fixes.begin(),
                 {"if another rank steps it: broadcast it after step(), as those others", kLikely});
  }
  return fixes;
}

}  // namespace ddpscope
