#include "checks/site_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "checks/subtree.h"

namespace ddpscope {
namespace {
// Two calls in one line are one.
bool is_same(const Frame& a, const Frame& b) {
  const bool has_line = a.line > 0 && b.line > 0;
  return has_line ? std::tie(a.file, a.line) == std::tie(b.file, b.line)
                  : std::tie(a.module, a.offset) == std::tie(b.module, b.offset);
}
}  // namespace

std::string line_of(const Site& site) {
  const auto own = std::ranges::find(site.frames, false, &Frame::library);
  if (own == site.frames.end() || own->line <= 0) return "";
  return fmt::format("{}:{}", own->file.substr(own->file.rfind('/') + 1), own->line);
}

bool is_one_line(const Site& a, const Site& b) {
  return !a.frames.empty() && std::ranges::equal(a.frames, b.frames, is_same);
}

std::array<Site, 2> told_apart(Site a, Site b) {
  const auto [of_a, of_b] = std::ranges::mismatch(a.frames, b.frames, is_same);
  const bool are_apart = of_a != a.frames.end() && of_b != b.frames.end();
  if (are_apart && !of_a->library && !of_b->library) {
    a.frames.erase(a.frames.begin(), of_a);
    b.frames.erase(b.frames.begin(), of_b);
  }
  return {std::move(a), std::move(b)};
}

std::string add_site(std::string_view role, StackId stack, const RunState& state,
                     Finding& finding) {
  if (stack == 0 || state.sites() == nullptr) return "";
  Site site = state.sites()->site(stack);
  site.role = role;
  std::string line = line_of(site);
  finding.sites.push_back(std::move(site));
  return line;
}

const TensorState* owner_of(const TensorInfo& tensor, const RunState& state) {
  const TensorState* same = state.tensor(tensor.id);
  if (same != nullptr && !same->registrations.empty()) return same;
  if (tensor.storage == 0) return nullptr;
  return state.tensor(state.tensors().registered_in(tensor));
}

void place_at(const Doing& doing, const RunState& state, Finding& finding) {
  place_in(doing.module, state, finding);
}

void place_at(const TensorState& owner, const RunState& state, Finding& finding) {
  const Registration& registered = owner.registrations.front();
  const auto model = state.models().find(registered.model);
  if (model != state.models().end()) finding.model = model->second.label;
  finding.module_path = registered.module_path;
  finding.subject = registered.name;
}

void place_in(ModuleId module, const RunState& state, Finding& finding) {
  const ModulePlace* place = state.place_of(module);
  const ModelState* model =
      place != nullptr ? &state.models().at(place->model) : state.first_model();
  if (model != nullptr) finding.model = model->label;
  if (place != nullptr) finding.module_path = place->path;
}

std::string where_text(const Doing& doing, const std::string& line, const RunState& state) {
  const ModulePlace* place = state.place_of(doing.module);
  std::string text;
  if (place != nullptr && !place->path.empty()) text += " in " + place->path;
  if (!line.empty()) text += fmt::format(" ({})", line);
  return text;
}

}  // namespace ddpscope
