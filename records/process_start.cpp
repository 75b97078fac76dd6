#include "records/process_start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fstream>
#include <string_view>

namespace ddpscope {
namespace {

constexpr int kParentField = 4;  // of /proc/<pid>/stat
constexpr int kStartField = 22;

/// The number that `text` begins with, behind blanks; 0 if there is none.
std::int64_t number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// What stands behind `key` in a file of /proc that has it at the begin of a line.
std::int64_t proc_value(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return number_at(std::string_view(line).substr(key.size()));
  }
  return 0;
}

}  // namespace

ProcessStart start_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::int64_t boot = proc_value("/proc/stat", "btime");
  std::size_t at = line.rfind(')');  // the name before it may hold anything
  if (at == std::string::npos || boot == 0) return {};
  ProcessStart found;
  for (int field = 3; field <= kStartField; ++field) {
    at = line.find(' ', at + 1);
    if (at == std::string::npos) return {};
    const std::int64_t value = number_at(std::string_view(line).substr(at));
    if (field == kParentField) found.parent = value;
    if (field == kStartField) found.seconds = boot + value / ::sysconf(_SC_CLK_TCK);
  }
  return found;
}

bool began_after(std::int64_t pid, const std::string& started) {
  std::tm parts = {};
  if (::strptime(started.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return false;
  constexpr std::int64_t kClockSlackSeconds = 2;
  return start_of(pid).seconds > ::timegm(&parts) + kClockSlackSeconds;
}

}  // namespace ddpscope
