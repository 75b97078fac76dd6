#include "tools/process_environment.h"

#include <algorithm>

namespace ddpscope {
namespace {
bool is_entry_of(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
}
}  // namespace

ProcessEnvironment::ProcessEnvironment(const char* const* entries) {
  for (; entries != nullptr && *entries != nullptr; ++entries) entries_.emplace_back(*entries);
}

std::optional<std::string> ProcessEnvironment::get(std::string_view name) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [name](const auto& e) { return is_entry_of(e, name); });
  if (entry == entries_.end()) return std::nullopt;
  return entry->substr(name.size() + 1);
}

void ProcessEnvironment::set(std::string_view name, std::string_view value) {
  std::erase_if(entries_, [name](const auto& entry) { return is_entry_of(entry, name); });
  entries_.push_back(std::string(name) + '=' + std::string(value));
}

std::vector<char*> ProcessEnvironment::pointers() {
  std::vector<char*> result;
  for (auto& entry : entries_) result.push_back(entry.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace ddpscope
