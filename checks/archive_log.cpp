#include "checks/archive_log.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "checks/subtree.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxArchived = 100000;

// The words of TorchScript's lexer.
constexpr std::array<std::string_view, 28> kKeywords = {
    "and",  "as",    "assert", "break",  "class",  "continue", "def",   "del", "elif", "Ellipsis",
    "else", "False", "for",    "global", "if",     "import",   "in",    "is",  "None", "NoneType",
    "not",  "or",    "pass",   "raise",  "return", "True",     "while", "with"};

std::string flat(std::string path) {
  std::ranges::replace(path, '.', '_');
  return path;
}

/// Registered tensors by their paths and by those of the modules that hold them, to find what was
/// asked for without a tensor. Programs write an underscore where a name may hold no dot.
class Paths {
 public:
  using Tensors = std::vector<const TensorState*>;

  explicit Paths(const RunState& state) {
    for (const auto& [id, model] : state.models()) {
      for (const RegisteredTensor& registered : model.tensors) {
        const TensorState* tensor = state.tensor(registered.tensor.id);
        if (tensor != nullptr) add(*tensor, tensor_path(*tensor));
      }
    }
  }
  Tensors find(const std::string& path) const {
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? Tensors() : found->second;
  }

 private:
  void add(const TensorState& tensor, const std::string& path) {
    if (const std::string name = flat(path); name != path) by_path_[name].push_back(&tensor);
    for (std::size_t end = path.size(); end != std::string::npos && end > 0;) {
      by_path_[path.substr(0, end)].push_back(&tensor);
      end = path.rfind('.', end - 1);
    }
  }

  std::unordered_map<std::string, Tensors> by_path_;
};

/// What a program found in one archive.
class Found {
 public:
  void add(const ArchiveTensorEvent& event, const Paths& paths, const RunState& state) {
    const TensorState* tensor = state.tensor(event.tensor);
    const bool is_registered = tensor != nullptr && !tensor->registrations.empty();
    const bool is_name = is_registered || !paths.find(event.key).empty();
    if (event.access == ArchiveAccess::kRead && is_name) held_a_name_ = true;
    if (event.access == ArchiveAccess::kRead && !is_name) others_.insert(event.key);
    if (event.access == ArchiveAccess::kMissing && is_name) missing_.insert(event.key);
  }
  /// By other names perhaps. One tensor beside more that are missing was only looked at, as to see
  /// whether the names have a prefix.
  bool is_loaded() const {
    return held_a_name_ || others_.size() > 1 || others_.size() >= missing_.size();
  }

 private:
  bool held_a_name_ = false;
  std::set<std::string> others_;
  std::set<std::string> missing_;
};

bool is_within(const std::string& path, const std::string& module) {
  return module.empty() || path == module || path.starts_with(module + ".");
}
}  // namespace

void ArchiveLog::add(const ArchiveTensorEvent& event) {
  if (events_.size() < kMaxArchived) events_.push_back(event);
}

std::vector<ArchiveVisit> ArchiveLog::visits(const RunState& state) const {
  std::map<std::pair<std::uint64_t, ModelId>, ArchiveVisit> by_place;
  const bool by_name = std::ranges::any_of(events_, [](const auto& e) { return e.tensor == 0; });
  const std::optional<Paths> paths = by_name ? std::optional<Paths>(state) : std::nullopt;
  std::map<std::uint64_t, Found> found;
  if (by_name) {
    for (const ArchiveTensorEvent& event : events_) found[event.archive].add(event, *paths, state);
  }
  for (const ArchiveTensorEvent& event : events_) {
    Paths::Tensors tensors;
    if (const TensorState* tensor = state.tensor(event.tensor)) tensors = {tensor};
    if (event.tensor == 0 && !found[event.archive].is_loaded()) tensors = paths->find(event.key);
    std::erase_if(tensors, [](const TensorState* one) { return one->registrations.empty(); });
    if (tensors.empty()) continue;
    const ModelId model = tensors.front()->registrations.front().model;
    ArchiveVisit& visit = by_place[{event.archive, model}];
    visit.archive = event.archive;
    visit.model = &state.models().at(model);
    if (event.access == ArchiveAccess::kRead) visit.read.push_back(&event);
    if (event.access == ArchiveAccess::kMissing) visit.missing.push_back(&event);
    if (event.access == ArchiveAccess::kWritten) {
      visit.written.push_back(&event);
      continue;
    }
    for (const TensorState* tensor : tensors) visit.asked_for.push_back(tensor->info.id);
  }
  std::vector<ArchiveVisit> visits;
  visits.reserve(by_place.size());
  for (auto& [place, visit] : by_place) visits.push_back(std::move(visit));
  return visits;
}

std::vector<const TensorState*> expected_by(const ArchiveVisit& visit, const RunState& state) {
  std::optional<std::string> module;
  for (const TensorId id : visit.asked_for) {
    const std::string& path = state.tensor(id)->registrations.front().module_path;
    module = module.has_value() ? common_path(*module, path) : path;
  }
  std::vector<const TensorState*> expected;
  std::set<TensorId> seen;
  for (const RegisteredTensor& registered : visit.model->tensors) {
    if (!is_within(registered.module_path, module.value_or(""))) continue;
    const TensorState* tensor = state.tensor(registered.tensor.id);
    if (tensor != nullptr && seen.insert(tensor->info.id).second) expected.push_back(tensor);
  }
  return expected;
}

std::string unreadable_part(const std::string& path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    std::string part = path.substr(begin, end - begin);
    if (std::ranges::find(kKeywords, part) != kKeywords.end()) return part;
    begin = end + 1;
  }
  return "";
}

}  // namespace ddpscope
