#include "checks/device_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

std::string key_of_place(const std::string& module_path, const std::string& name) {
  return module_path + "." + name;
}

// Copies go from one device to another, and what only looks at a tensor mixes nothing.
bool may_mix(std::string_view op) {
  static constexpr std::array<std::string_view, 7> kCopies = {
      "aten::copy_",      "aten::copy", "aten::to",     "aten::_to_copy",
      "aten::_copy_from", "aten::set_", "aten::type_as"};
  return std::ranges::find(kCopies, op) != kCopies.end();
}

bool takes_index_on_host(std::string_view op) {
  return op.starts_with("aten::index") || op.starts_with("aten::_index_put") ||
         op.starts_with("aten::_unsafe_index");
}

/// Whether LibTorch takes this input beside those of a device.
bool may_stay_on_host(const TensorInfo& input, std::string_view op) {
  if (input.device != "cpu") return false;
  return input.shape.empty() || (!input.floating && takes_index_on_host(op));
}

/// The device of most elements that are registered; "" where nothing is.
std::string home_device(const RunState& state) {
  std::map<std::string, std::int64_t> elements;
  for (const auto& [id, model] : state.models()) {
    for (const RegisteredTensor& registered : model.tensors) {
      elements[registered.tensor.device] += registered.tensor.elements;
    }
  }
  const auto most =
      std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; });
  return most == elements.end() ? "" : most->first;
}

struct OwnerOfInput {
  std::string kind = {};
  std::string path = {};
  std::string text = {};  ///< names the tensor in the sentence
  const TensorState* tensor = nullptr;
};

OwnerOfInput owner_of_input(const TensorInfo& input, const RunState& state) {
  const std::string shape = shape_text(input.shape);
  const TensorState* tensor = state.tensor(state.trace().leaf_behind(input.id));
  OwnerOfInput owner{.tensor = tensor};
  if (tensor != nullptr && !tensor->registrations.empty()) {
    owner.kind = "registered";
    owner.path = tensor_path(*tensor);
    owner.text = owner.path + " " + shape;
  } else if (tensor != nullptr && !tensor->owners.empty()) {
    owner.kind = "optimizer_member";
    owner.path = optimizer_label(state.optimizers().at(tensor->owners.front()));
    owner.text = fmt::format("tensor {} of optimizer {}", shape, owner.path);
  } else if (const auto made = state.trace().maker_of(input.id)) {
    owner.kind = "computed";
    owner.path = made->path.empty() ? made->op : made->op + " in " + made->path;
    owner.text = fmt::format("tensor {} made by {}", shape, owner.path);
  } else {
    const bool is_kept = tensor != nullptr && tensor->use.last_cycle > 0 &&
                         tensor->use.last_cycle < state.now().cycle;
    const bool is_batch = !input.requires_grad && !is_kept;
    owner.kind = is_batch ? "batch" : "unregistered";
    owner.text = (is_batch ? "input " : "tensor ") + shape;
  }
  return owner;
}

std::string why_elsewhere(const OwnerOfInput& owner, const RunState& state) {
  if (owner.kind == "registered") {
    return "its module is on another device than what it is given";
  }
  if (owner.kind == "optimizer_member") {
    return "the optimizer holds it, but no module registers it: to(device) did not move it";
  }
  if (owner.kind == "computed") return "it was computed on that device, and nothing moved it";
  if (owner.kind == "batch") return "to(device) of a model moves what is registered, not its input";
  const std::string type =
      owner.tensor != nullptr ? state.loose_module_type(owner.tensor->info.id) : "";
  return "to(device) moves registered tensors only" +
         (type.empty() ? "" : fmt::format("; a live {} holds it", type));
}

std::vector<Fix> fixes_for_device(const OwnerOfInput& owner, const std::string& rest) {
  const Fix move{fmt::format("move it to {} before the call: x.to(device)", rest), kLikely};
  if (owner.kind == "registered") {
    return {{"call to(device) of the root, after the last module is registered", kLikely}, move};
  }
  if (owner.kind == "unregistered" || owner.kind == "optimizer_member") {
    return {{"register_module(...) of what holds it, or torch::nn::ModuleList", kLikely},
            {"register_buffer(...) or register_parameter(...) of the tensor", kLikely},
            move};
  }
  return {move};
}

void place_of_mismatch(const OwnerOfInput& owner, ModuleId module, const RunState& state,
                       Finding& finding) {
  place_in(module, state, finding);
  if (owner.kind == "registered") {
    const Registration& at = owner.tensor->registrations.front();
    finding.module_path = at.module_path;
    finding.subject = at.name;
    if (const ModelState* model = state.model_of(*owner.tensor)) finding.model = model->label;
  } else if (owner.kind != "batch" && owner.kind != "computed") {
    finding.subject = owner.text;
  }
}

/// The words words_between two texts; "" if they do not stand there.
std::string words_between(const std::string& text, std::string_view begin, char end) {
  const auto from = text.find(begin);
  if (from == std::string::npos) return "";
  const auto first = from + begin.size();
  const auto last = text.find(end, first);
  return last == std::string::npos ? "" : text.substr(first, last - first);
}
}  // namespace

void DeviceMoves::update(const TreeEvent& event) {
  auto& known = places_[event.model];
  std::map<std::string, Place> now;
  for (const RegisteredTensor& registered : event.tensors) {
    const std::string key = key_of_place(registered.module_path, registered.name);
    Place& place = now[key];
    const auto before = known.find(key);
    if (before != known.end()) place = before->second;
    if (before != known.end() && place.device != registered.tensor.device) {
      place.moved_at_step = event.at.step;
    }
    place.device = registered.tensor.device;
  }
  known = std::move(now);
}

std::optional<std::int64_t> DeviceMoves::step_of(const Registration& at) const {
  const auto model = places_.find(at.model);
  if (model == places_.end()) return std::nullopt;
  const auto place = model->second.find(key_of_place(at.module_path, at.name));
  return place == model->second.end() ? std::nullopt : place->second.moved_at_step;
}

std::optional<SplitInputs> split_by_device(const OperatorFailedEvent& event,
                                           const RunState& state) {
  if (may_mix(event.op)) return std::nullopt;
  std::map<std::string, std::int64_t> counts;
  SplitInputs split;
  for (const FailedInput& input : event.inputs) {
    if (may_stay_on_host(input.tensor, event.op)) continue;
    if (counts[input.tensor.device]++ == 0) split.devices.push_back(input.tensor.device);
  }
  if (counts.size() < 2) return std::nullopt;
  split.rest = home_device(state);
  if (!counts.contains(split.rest)) {
    split.rest = *std::ranges::max_element(split.devices, {},
                                           [&](const auto& device) { return counts.at(device); });
  }
  for (std::size_t i = 0; i < event.inputs.size(); ++i) {
    const TensorInfo& input = event.inputs[i].tensor;
    if (input.device != split.rest && !may_stay_on_host(input, event.op)) split.odd.push_back(i);
  }
  std::ranges::stable_sort(split.odd, std::ranges::greater(),
                           [&](std::size_t i) { return event.inputs[i].tensor.elements; });
  return split;
}

Finding device_mismatch(const OperatorFailedEvent& event, const SplitInputs& split,
                        const RunState& state, const DeviceMoves& moves) {
  const TensorInfo& odd = event.inputs[split.odd.front()].tensor;
  const OwnerOfInput owner = owner_of_input(odd, state);
  Finding finding;
  finding.severity = Severity::kError;
  finding.step = event.at.step;
  finding.phase = event.in_backward ? Phase::kBackward : Phase::kForward;
  finding.op = event.op;
  place_of_mismatch(owner, event.module, state, finding);
  const bool is_loose = owner.kind == "unregistered" || owner.kind == "optimizer_member";
  finding.what = fmt::format("{} is on {}, the other inputs on {}{}", owner.text, odd.device,
                             split.rest, is_loose ? "; it is registered nowhere" : "");
  if (split.odd.size() > 1) {
    finding.what += fmt::format("; so are {} more", split.odd.size() - 1);
  }
  finding.why = why_elsewhere(owner, state);
  finding.fixes = fixes_for_device(owner, split.rest);
  std::vector<std::string> devices;
  for (const FailedInput& input : event.inputs) devices.push_back(input.tensor.device);
  finding.facts = {{fact::kDevices, as_fact(devices)},
                   {fact::kArgument, static_cast<std::int64_t>(split.odd.front())},
                   {fact::kShape, shape_text(odd.shape)},
                   {fact::kOwnerKind, owner.kind},
                   {fact::kOwnerPath, owner.path}};
  if (owner.kind != "registered") return finding;
  if (const auto step = moves.step_of(owner.tensor->registrations.front())) {
    finding.facts.push_back({fact::kMovedAtStep, *step});
    finding.why += fmt::format("; it was moved there in step {}", *step);
  }
  return finding;
}

std::optional<Finding> device_mismatch(const ErrorEvent& event, const RunState& state) {
  if (event.message.find("all tensors to be on the same device") == std::string::npos) {
    return std::nullopt;
  }
  Finding finding;
  finding.severity = Severity::kError;
  finding.confidence = Confidence::kMedium;
  finding.step = event.at.step;
  finding.phase = event.phase;
  place_in(event.module, state, finding);
  const std::string devices = words_between(event.message, "found at least two devices, ", '!');
  finding.what = fmt::format("an operator threw on inputs of {}",
                             devices.empty() ? "several devices" : devices);
  finding.why = "in this step operators were not looked at: their inputs are not known";
  finding.fixes = {{"move what the model is given: x.to(device)", kLikely},
                   {"call to(device) of the root, after the last module is registered", kLikely}};
  finding.facts = {{fact::kDevices, devices}};
  return finding;
}

}  // namespace ddpscope
