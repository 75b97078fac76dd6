#include "checks/cut_text.h"

#include <fmt/format.h>

#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

std::string named(const TensorGroup& group) {
  std::string path = group.module_path;
  if (!group.subject.empty()) path += (path.empty() ? "" : ".") + group.subject;
  return path.empty() ? group.model_label : path;
}

std::string names_of(const std::vector<TensorGroup>& groups) {
  std::vector<std::string> names;
  for (const TensorGroup& group : groups) names.push_back(named(group));
  return joined(names);
}

std::string why_text(const GradientCut& cut, const std::string& names, const std::string& line) {
  const std::string at = line.empty() ? "" : " at " + line;
  const std::string output = cut.shape.empty() ? "output" : "output " + shape_text(cut.shape);
  if (cut.is_rebound) {
    return fmt::format(
        "{} ran with grad mode off{}, and the tensors that it made took the place of parameters: "
        "they require no gradient, and no operator reads the parameters any more",
        cut.op, at);
  }
  if (cut.cause == "grad_mode_off" && cut.op.empty()) {
    return "grad mode is off in the thread that called backward: forward recorded no graph";
  }
  if (cut.cause == "grad_mode_off") {
    return fmt::format("{} ran with grad mode off{}; its {} then entered the loss", cut.op, at,
                       output);
  }
  if (cut.cause == "integer_op") {
    return fmt::format(
        "{}{} made integers of the output of {}, and integers have no gradient; "
        "its {} then entered the loss",
        cut.op, at, names, output);
  }
  if (cut.cause == "host_value") {
    return fmt::format(
        "{}{} read a number from the output of {}, and that number then entered "
        "the loss as a constant",
        cut.op, at, names);
  }
  if (cut.cause == "leaf_loss") {
    if (cut.op.empty())
      return "backward began at a leaf: what computed it read nothing with a gradient path";
    return fmt::format("backward began at a leaf: the loss lost its graph by {}{}", cut.op, at);
  }
  return fmt::format("{} of {} was detached{} and then entered the loss", output, names, at);
}

bool chooses(const std::string& op) { return op == "aten::argmax" || op == "aten::argmin"; }

std::vector<Fix> rebound_fixes() {
  return {{"write into the parameter under the guard, as w.sub_(lr * w.grad()), and clear its "
           "gradient",
           kLikely},
          {"or make the new tensor a leaf that requires one: "
           "(w - lr * w.grad()).requires_grad_(true)",
           kNeedsDecision}};
}

std::vector<Fix> fixes_of(const GradientCut& cut, const std::string& names) {
  std::vector<Fix> fixes;
  if (cut.is_rebound) return rebound_fixes();
  if (cut.cause == "detach") {
    fixes = {{"remove detach() or data()", kLikely}};
    if (!cut.dropped_op.empty()) {
      fixes = {
          {fmt::format("add what {} returned to the loss, or call its backward()", cut.dropped_op),
           kLikely},
          {"remove detach() or data(), unless it keeps this loss from training " + names,
           kNeedsDecision}};
    }
  } else if (cut.cause == "grad_mode_off") {
    fixes = {{"close the scope of torch::NoGradGuard before the training forward, restore GradMode",
              kLikely},
             {"if it runs in the forward() of a torch::autograd::Function, where grad mode is off: "
              "call that with an input that requires a gradient",
              kLikely}};
  } else if (cut.cause == "integer_op") {
    fixes = {{"compute the loss from the values before " + cut.op + ", not from its indices",
              kNeedsDecision}};
  } else if (cut.cause == "host_value") {
    fixes = {{"use the tensor in the loss, and item() for printing only", kLikely}};
  } else {
    if (chooses(cut.op)) {
      fixes = {{fmt::format("compute the loss from the scores before {}, which has no gradient: "
                            "cross_entropy takes logits",
                            cut.op),
                kLikely},
               {"remove set_requires_grad(true) from the loss: it hides that", kLikely}};
      return fixes;
    }
    fixes = {{"remove set_requires_grad(true) from the loss", kLikely},
             {"compute the loss without detach(), data(), a NoGradGuard or numbers read by item()",
              kLikely}};
    return fixes;
  }
  fixes.push_back({"if it is intended: requires_grad_(false) on " + names, kNeedsDecision});
  return fixes;
}
void say_dropped(const GradientCut& cut, const RunState& state, Finding& finding) {
  if (cut.dropped_op.empty()) return;
  const std::string made = add_site("created", cut.dropped_stack, state, finding);
  finding.why +=
      fmt::format("; {}{} made one number of it with a gradient path, and that entered no loss",
                  cut.dropped_op, made.empty() ? "" : " at " + made);
}
}  // namespace

Finding cut_finding(const GradientCut& cut, std::int64_t since_step, const RunState& state) {
  std::vector<const TensorState*> starved;
  for (const TensorId id : cut.starved) starved.push_back(state.tensor(id));
  const std::vector<TensorGroup> groups = collapse(state, starved);
  TensorGroup all{.model = groups.front().model,
                  .model_label = groups.front().model_label,
                  .module_path = groups.front().module_path,
                  .tensors = starved};
  for (const TensorGroup& group : groups) {
    all.module_path = common_path(all.module_path, group.module_path);
  }
  const std::string names = names_of(groups);
  Finding finding;
  finding.severity = Severity::kWarning;
  finding.model = all.model_label;
  const ModulePlace* place = state.place_of(cut.module);
  const bool is_elsewhere = place != nullptr && place->model != all.model;
  finding.module_path = cut.path.empty() || is_elsewhere ? all.module_path : cut.path;
  finding.op = cut.op;
  const std::string line = add_site("used", cut.stack, state, finding);
  add_site("called", cut.backward, state, finding);
  finding.what =
      fmt::format("cuts {} ({}) of {} from the loss",
                  counted(static_cast<std::int64_t>(starved.size()), "trainable parameter"),
                  counted(elements_of(starved), "element"), names);
  finding.why = why_text(cut, names, line);
  say_dropped(cut, state, finding);
  finding.fixes = fixes_of(cut, names);
  finding.facts = {{fact::kCause, cut.cause},
                   {fact::kCutOp, cut.op},
                   {fact::kCutSite, line},
                   {fact::kParameters, as_fact(paths_of(all))},
                   {fact::kStarvedParametersCount, static_cast<std::int64_t>(starved.size())},
                   {fact::kStarvedElements, elements_of(starved)}};
  if (cut.cause == "grad_mode_off") {
    finding.facts.push_back({fact::kGradModeOffSinceStep, since_step});
  }
  return finding;
}

Finding frozen_finding(const std::vector<const TensorState*>& frozen, const ErrorEvent& refused,
                       const RunState& state) {
  const std::vector<TensorGroup> groups = collapse(state, frozen);
  const std::string names = names_of(groups);
  Finding finding = about(groups.front());
  for (const TensorGroup& group : groups) {
    finding.module_path = common_path(finding.module_path, group.module_path);
  }
  finding.severity = Severity::kError;
  finding.phase = Phase::kBackward;
  add_site("called", refused.stack, state, finding);
  finding.what = fmt::format(
      "backward was refused, for its loss has no graph; {} ({}) in optimizers {} frozen, {} of {}",
      counted(std::ssize(frozen), "parameter"), counted(elements_of(frozen), "element"),
      frozen.size() == 1 ? "is" : "are", frozen.size() == 1 ? "that" : "those", names);
  finding.why = "grad mode was on, and nothing that the loss was computed from requires grad";
  finding.fixes = {{"requires_grad_(true) on what this loss trains, before its forward", kLikely},
                   {"leave backward out of steps that train nothing", kNeedsDecision}};
  return finding;
}

namespace {
Finding refused_at(const ErrorEvent& refused, const RunState& state) {
  Finding finding;
  finding.severity = Severity::kError;
  finding.phase = Phase::kBackward;
  place_in(refused.module, state, finding);
  add_site("called", refused.stack, state, finding);
  return finding;
}
}  // namespace

Finding no_graph_finding(const std::vector<const TensorState*>& untrained,
                         const ErrorEvent& refused, const RunState& state) {
  Finding finding = refused_at(refused, state);
  finding.what = "backward was refused, for its loss has no graph";
  if (!untrained.empty()) {
    const std::vector<TensorGroup> groups = collapse(state, untrained);
    finding.model = groups.front().model_label;
    finding.module_path = groups.front().module_path;
    for (const TensorGroup& group : groups) {
      finding.module_path = common_path(finding.module_path, group.module_path);
    }
    finding.what += fmt::format("; {} ({}) in optimizers never had a gradient: {}",
                                counted(std::ssize(untrained), "parameter"),
                                counted(elements_of(untrained), "element"), names_of(groups));
  }
  finding.why = refused.grad_mode
                    ? "grad mode was on at that call: forward ran under a torch::NoGradGuard, or "
                      "detach(), data() or item() took the loss out of its graph; no recorded "
                      "operator shows where"
                    : "grad mode is off in the thread that called backward: forward recorded no "
                      "graph";
  finding.fixes = {
      {"close the scope of torch::NoGradGuard before the training forward, restore GradMode",
       kLikely},
      {"compute the loss without detach(), data() or numbers read by item()", kLikely}};
  return finding;
}

Finding after_grad_finding(const ErrorEvent& refused, const RunState& state) {
  Finding finding = refused_at(refused, state);
  finding.what = "a backward was refused, for what it begins at has no graph";
  finding.why =
      "the autograd::grad() before it in this step ran without create_graph: what it returned has "
      "no graph";
  finding.fixes = {
      {"create_graph = true in the autograd::grad() before, whose result is "
       "differentiated again",
       kLikely}};
  return finding;
}

Finding input_without_grad_finding(const ErrorEvent& refused, const RunState& state) {
  Finding finding = refused_at(refused, state);
  const std::string number = refused.message.substr(
      std::string("element ").size(), refused.message.find(" of") - std::string("element ").size());
  finding.what = fmt::format("autograd::grad() was refused: input {} requires no gradient", number);
  finding.why = "what is differentiated by it was computed without a path to that input";
  finding.fixes = {
      {"requires_grad_(true) on that input, before the forward that reads it", kLikely},
      {"leave it out of the inputs of autograd::grad()", kNeedsDecision}};
  return finding;
}

}  // namespace ddpscope
