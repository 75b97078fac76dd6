#include "checks/failure_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "checks/failure_hints.h"
#include "checks/finding_text.h"
#include "checks/subtree.h"
#include "checks/undefined_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxNamed = 4;

bool is_contiguous(const FailedInput& input) {
  std::int64_t expected = 1;
  for (std::size_t i = input.strides.size(); i-- > 0;) {
    if (input.tensor.shape[i] == 1) continue;
    if (input.strides[i] != expected) return false;
    expected *= input.tensor.shape[i];
  }
  return true;
}

std::string owner_of_input(const FailedInput& input, const RunState& state) {
  const TensorState* tensor = state.tensor(state.trace().leaf_behind(input.tensor.id));
  const bool registered = tensor != nullptr && !tensor->registrations.empty();
  return registered ? tensor_path(*tensor) : "";
}

std::string producer_of(const FailedInput& input, const RunState& state) {
  const auto made = state.trace().maker_of(input.tensor.id);
  if (!made.has_value()) return "";
  return made->path.empty() ? made->op : made->op + " in " + made->path;
}

std::string text_of(const FailedInput& input, bool with_dtype, const RunState& state) {
  std::string text = (with_dtype ? input.tensor.dtype : "") + shape_text(input.tensor.shape);
  const bool odd = input.strides.size() == input.tensor.shape.size() && !is_contiguous(input);
  if (odd) text += fmt::format(", strides ({})", fmt::join(input.strides, ", "));
  const std::string owner = owner_of_input(input, state);
  const std::string producer = producer_of(input, state);
  if (!owner.empty()) {
    text += " of " + owner;
  } else if (!producer.empty()) {
    text += " made by " + producer;
  }
  return text;
}

Finding at_module(ModuleId module, const RunState& state) {
  Finding finding;
  finding.phase = Phase::kForward;
  if (const ModelState* model = state.first_model()) finding.model = model->label;
  if (const ModulePlace* place = state.place_of(module)) {
    finding.module_path = place->path;
    finding.model = state.models().at(place->model).label;
  }
  return finding;
}

/// Of many inputs equal ones are told once, so that the odd one among them is.
std::string inputs_text(const std::vector<std::string>& texts) {
  if (texts.size() <= kMaxNamed) return joined(texts, "; ");
  std::set<std::string> seen;
  std::vector<std::string> told;
  std::size_t left = texts.size();
  for (const std::string& text : texts) {
    if (told.size() == kMaxNamed || !seen.insert(text).second) continue;
    const auto times = static_cast<std::size_t>(std::ranges::count(texts, text));
    told.push_back(times == 1 ? text : fmt::format("{} ({} times)", text, times));
    left -= times;
  }
  return joined(told, "; ") + (left > 0 ? fmt::format("; {} more", left) : "");
}

/// Adds the stack, which names the line.
std::string threw(const ThrownIn& thrown, Finding& finding) {
  if (!thrown.site.frames.empty()) finding.sites.push_back(thrown.site);
  return thrown.line.empty() ? "threw" : "threw at " + thrown.line;
}
}  // namespace

Finding failed_operator(const OperatorFailedEvent& event, const ThrownIn& thrown,
                        const RunState& state) {
  Finding finding = at_module(event.module, state);
  finding.step = event.at.step;
  if (event.in_backward) finding.phase = Phase::kBackward;
  finding.op = event.op;
  std::vector<std::string> texts, shapes, dtypes, strides, devices, owners, producers;
  const bool are_mixed = std::ranges::any_of(event.inputs, [&](const FailedInput& input) {
    return input.tensor.dtype != event.inputs.front().tensor.dtype;
  });
  for (const FailedInput& input : event.inputs) {
    texts.push_back(text_of(input, are_mixed, state));
    shapes.push_back(shape_text(input.tensor.shape));
    dtypes.push_back(input.tensor.dtype);
    strides.push_back(fmt::format("({})", fmt::join(input.strides, ", ")));
    devices.push_back(input.tensor.device);
    owners.push_back(owner_of_input(input, state));
    producers.push_back(producer_of(input, state));
  }
  finding.what = threw(thrown, finding);
  if (!texts.empty()) {
    finding.what +=
        fmt::format(" on {} {}", texts.size() == 1 ? "input" : "inputs", inputs_text(texts));
  }
  explain_failure(event.message, state, finding);
  if (is_of_undefined(event.message)) say_undefined(event.message, state, finding);
  finding.facts = {{fact::kException, first_line_thrown(event.message)},
                   {fact::kShapes, as_fact(shapes)},
                   {fact::kDtypes, as_fact(dtypes)},
                   {fact::kStrides, as_fact(strides)},
                   {fact::kDevices, as_fact(devices)},
                   {fact::kOwners, as_fact(owners)},
                   {fact::kProducers, as_fact(producers)},
                   {fact::kThread, static_cast<std::int64_t>(event.at.thread)}};
  return finding;
}

Finding failed_unseen(const ErrorEvent& event, const ThrownIn& thrown, const SurveyedOp* last,
                      const RunState& state) {
  Finding finding = at_module(event.module, state);
  finding.step = event.at.step;
  finding.phase = event.phase;
  const bool is_last = last != nullptr && (thrown.op.empty() || thrown.op == last->op);
  std::vector<std::string> shapes;
  if (is_last) {
    for (const auto& shape : last->shapes) shapes.push_back(shape_text(shape));
  }
  finding.what = threw(thrown, finding);
  if (thrown.op.empty()) {
    finding.confidence = Confidence::kMedium;
    finding.evidence_status = EvidenceStatus::kSupported;
    finding.what = "the module threw";
  }
  finding.op = is_last ? last->op : thrown.op;
  if (is_last) {
    finding.what +=
        fmt::format("; when it was last surveyed, in step {}, it ran {}on {}", last->step,
                    thrown.op.empty() ? last->op + " " : "", joined(shapes, "; "));
  }
  explain_failure(event.message, state, finding);
  finding.facts = {{fact::kException, first_line_thrown(event.message)},
                   {fact::kShapes, as_fact(shapes)},
                   {fact::kThread, static_cast<std::int64_t>(event.at.thread)}};
  return finding;
}

}  // namespace ddpscope
