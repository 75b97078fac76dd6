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
std::string label_of(OptimizerId id, const RunState& state) {
  return optimizer_label(state.optimizers().at(id));
}

std::string why_lapsed(const LeftOut& kind, const RunState& state) {
  const OptimizerState& owner = state.optimizers().at(kind.owner);
  const OptimizerState& other = state.optimizers().at(kind.other);
  if (kind.lapse == Lapse::kNeverStepped) {
    return fmt::format(
        "{}, number {} of those that were built, holds them; meanwhile {} was seen to make {}",
        optimizer_label(owner), owner.id, optimizer_label(other), counted(other.steps, "step"));
  }
  std::string why = fmt::format("{} holds them, and was last seen to step at step {}; ",
                                optimizer_label(owner), owner.last_step);
  if (kind.lapse == Lapse::kAtRest) return why + optimizer_label(other) + " still steps";
  return why + fmt::format("{}, built after that, holds others of its parameters and not these",
                           optimizer_label(other));
}

std::vector<Fix> fixes_for_lapsed(const LeftOut& kind, const RunState& state) {
  const Fix frozen = {
      "requires_grad_(false), if they are to stay as they are: backward then "
      "computes less",
      kind.lapse == Lapse::kAtRest ? kLikely : kNeedsDecision};
  if (kind.lapse == Lapse::kNeverStepped) {
    return {{"call step() of that optimizer behind backward()", kLikely},
            {"do not build it, and requires_grad_(false), if they are to stay as they are",
             kNeedsDecision}};
  }
  const Fix added = {
      fmt::format("build {} with them too, or add_param_group(...)", label_of(kind.other, state)),
      kind.lapse == Lapse::kFollowed ? kLikely : kNeedsDecision};
  if (kind.lapse == Lapse::kFollowed) return {added, frozen};
  return {frozen, added};
}
}  // namespace

std::string cause_of_left_out(const LeftOut& kind) {
  if (kind.lapse == Lapse::kNeverStepped) return "never_stepped";
  return kind.built_before ? "built_before" : "group_omits";
}

Severity severity_of_left_out(const LeftOut& kind) {
  const bool is_updated = !kind.written_by.empty() || !kind.sent_in.empty();
  const bool may_stay = kind.is_fixed || kind.is_behind || kind.lapse == Lapse::kAtRest;
  if (is_updated || may_stay) return Severity::kNote;
  return kind.lapse == Lapse::kNeverStepped ? Severity::kWarning : Severity::kError;
}

namespace {
/// Where ranks send parameters to each other, another one may step these.
std::string where_left_out(const LeftOut& kind, bool is_one) {
  const std::string none = " in no optimizer";
  if (kind.lapse != Lapse::kNone) return none + " that still steps";
  if (!kind.beside_sent) return none + (kind.sent_in.empty() ? "" : " of this rank");
  const std::string here = none + " of this rank, ";
  return here + (is_stale(kind) ? (is_one ? "which broadcasts it" : "which broadcasts them")
                                : "nor sent to it");
}
}  // namespace

std::string what_is_left_out(const TensorGroup& group, const LeftOut& kind) {
  const bool is_one = group.tensors.size() == 1;
  const bool registered = !group.tensors.front()->registrations.empty();
  std::string end = (is_one ? "is" : "are") + where_left_out(kind, is_one);
  if (kind.lapse == Lapse::kNeverStepped) {
    end = is_one ? "its optimizer was never stepped" : "their optimizer was never stepped";
  }
  return fmt::format(
      "{} ({}) {} and {} ({})",
      counted(static_cast<std::int64_t>(group.tensors.size()), registered ? "parameter" : "tensor"),
      counted(elements_of(group.tensors), "element"), is_one ? "gets gradients" : "get gradients",
      end, cause_of_left_out(kind));
}

std::string why_left_out(const TensorGroup& group, const LeftOut& kind, const RunState& state) {
  if (kind.lapse != Lapse::kNone) return why_lapsed(kind, state);
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
  if (kind.is_fixed) {
    why += "; they are in eval mode, in a part that no optimizer holds any of";
  } else if (kind.is_behind) {
    why += "; their model reads what an optimizer trains as its input, and none holds any of it";
  }
  if (kind.beside_sent) why += "; others like them are sent here by the ranks that step those";
  return why;
}

std::vector<Fix> fixes_for_left_out(const LeftOut& kind, const RunState& state) {
  if (kind.lapse != Lapse::kNone) return fixes_for_lapsed(kind, state);
  std::vector<Fix> fixes = {
      {"build the optimizer after the last change of the model", kLikely},
      {kAddGroup, kLikely},
      {"requires_grad_(false), if they are to stay as they are", kNeedsDecision}};
  if (!kind.built_before) fixes.erase(fixes.begin());
  if (kind.is_fixed || kind.is_behind) {
    const std::string train = kind.is_fixed ? "train() and " : "";
    fixes = {{"requires_grad_(false), if they are to stay as they are: backward then computes "
              "less",
              kLikely},
             {train + kAddGroup, kNeedsDecision}};
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
