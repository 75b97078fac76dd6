#include "checks/site_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "checks/subtree.h"

namespace ddpscope {
namespace {
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
}  // namespace

std::string line_of(const Site& site) {
  const auto own = std::ranges::find(site.frames, false, &Frame::library);
  if (own == site.frames.end() || own->line <= 0) return "";
  return fmt::format("{}:{}", own->file.substr(own->file.rfind('/') + 1), own->line);
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

std::string op_of_node(const std::string& node) {
  const std::size_t end = node.find("Backward");
  if (end == std::string::npos || end == 0) return node;
  const bool generated =
      std::all_of(node.begin() + static_cast<std::ptrdiff_t>(end) + 8, node.end(), is_digit);
  if (!generated || !is_upper(node[0])) return node;
  std::string op = "aten::";
  for (std::size_t i = 0; i < end; ++i) {
    const bool dimension = i > 0 && is_digit(node[i - 1]) && node[i] == 'D';
    if (is_upper(node[i]) && i > 0 && !dimension) op += '_';
    op += static_cast<char>(std::tolower(static_cast<unsigned char>(node[i])));
  }
  return op;
}

const TensorState* owner_of(const TensorInfo& tensor, const RunState& state) {
  const TensorState* same = state.tensor(tensor.id);
  if (same != nullptr && !same->registrations.empty()) return same;
  if (tensor.storage == 0) return nullptr;
  return state.tensor(state.tensors().registered_in(tensor.storage));
}

void place_at(const Doing& doing, const RunState& state, Finding& finding) {
  const ModulePlace* place = state.place_of(doing.module);
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
