#include "plugin/group_limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace ddpscope {
namespace {
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 names a huge number instead

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::vector<std::string> words_in(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; words.size() < 8 && file >> word;) words.push_back(word);
  return words;
}

std::optional<std::int64_t> first_number(const std::string& path) {
  const std::vector<std::string> words = words_in(path);
  return words.empty() ? std::nullopt : number(words[0]);
}

/// The folder of the group below `mount` and those of the groups that hold it.
std::vector<std::string> folders_of(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

void take_memory(std::optional<std::int64_t> bytes, GroupLimits& limits) {
  if (!bytes || *bytes <= 0 || *bytes >= kNoLimit) return;
  limits.memory_bytes = limits.memory_bytes == 0 ? *bytes : std::min(limits.memory_bytes, *bytes);
}

void take_cores(std::optional<std::int64_t> quota, std::optional<std::int64_t> period,
                GroupLimits& limits) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
  limits.cores = limits.cores == 0 ? cores : std::min(limits.cores, cores);
}

void read_version_2(const std::string& folder, GroupLimits& limits) {
  take_memory(first_number(folder + "/memory.max"), limits);
  const std::vector<std::string> words = words_in(folder + "/cpu.max");
  if (words.size() == 2) take_cores(number(words[0]), number(words[1]), limits);
}

void read_version_1(const std::string& folder, GroupLimits& limits) {
  take_memory(first_number(folder + "/memory.limit_in_bytes"), limits);
  take_cores(first_number(folder + "/cpu.cfs_quota_us"),
             first_number(folder + "/cpu.cfs_period_us"), limits);
}
}  // namespace

GroupLimits group_limits(const std::string& root) {
  GroupLimits limits;
  std::ifstream groups(root + "/proc/self/cgroup");
  const std::string mount = root + "/sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    std::istringstream parts(line);
    std::string id, controllers, path;
    std::getline(std::getline(std::getline(parts, id, ':'), controllers, ':'), path);
    if (controllers.empty()) {
      for (const std::string& folder : folders_of(mount, path)) read_version_2(folder, limits);
      continue;
    }
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) {
      if (name != "memory" && name != "cpu") continue;
      for (const std::string& folder : folders_of(mount + "/" + name, path)) {
        read_version_1(folder, limits);
      }
    }
  }
  return limits;
}

}  // namespace ddpscope
