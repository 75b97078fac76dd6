#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "records/launch_file.h"
#include "records/line_shape.h"
#include "records/process_start.h"
#include "records/record_json.h"
#include "records/report_dir.h"

namespace ddpscope {
namespace {

/// The first line of a regular file, at most kMaxLineBytes of it.
std::string first_line(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string line;
  std::array<char, 4096> buffer;
  while (line.size() < kMaxLineBytes) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    line.append(buffer.data(), static_cast<std::size_t>(got));
    if (const auto end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
  }
  return line;
}

std::vector<std::string> report_files_in(const std::string& dir) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(dir.c_str()), &::closedir);
  if (!stream) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    struct stat info = {};
    const std::string path = dir + "/" + entry->d_name;
    if (!is_report_file(entry->d_name) || ::lstat(path.c_str(), &info) != 0) continue;
    if (S_ISREG(info.st_mode)) names.emplace_back(entry->d_name);
  }
  return names;
}

std::string host_name() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return std::strerror(errno);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return ::fsync(fd) == 0 ? "" : std::strerror(errno);
}

}  // namespace

bool is_run_file(std::string_view name) {
  if (name == kLaunchFileName) return true;
  if (!name.starts_with("rank-")) return false;
  name.remove_prefix(5);
  const auto digits = std::min(name.find_first_not_of("0123456789"), name.size());
  return digits > 0 && digits < name.size() && name[digits] == '.';
}

bool is_report_file(std::string_view name) {
  constexpr std::array<std::string_view, 5> kReports = {
      "report.html", "report.json", "report.sarif", "report.junit.xml", "trace.json"};
  return is_run_file(name) || std::ranges::find(kReports, name) != kReports.end();
}

std::optional<std::int64_t> living_owner(const std::string& path, const std::string& host) {
  const std::string line = first_line(path);
  if (line.empty() || !shape_problem(line).empty()) return std::nullopt;
  const auto json = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    const RunRecord run = run_from_json(json);
    if (run.host != host || run.pid <= 0 || run.pid > 0x7FFFFFFF) return std::nullopt;
    if (run.pid == ::getpid()) return std::nullopt;
    const bool alive = ::kill(static_cast<pid_t>(run.pid), 0) == 0 || errno == EPERM;
    const bool is_owner = alive && !began_after(run.pid, run.started);
    return is_owner ? std::optional(run.pid) : std::nullopt;
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

std::string move_aside(const std::string& path) {
  std::string dir = path;
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  struct stat info = {};
  if (::lstat(dir.c_str(), &info) != 0) return {};
  if (!S_ISDIR(info.st_mode)) return fmt::format("report_dir {}: this is no folder", dir);

  const auto names = report_files_in(dir);
  if (names.empty()) return {};
  for (const auto& name : names) {
    if (const auto owner = living_owner(dir + "/" + name, host_name())) {
      return fmt::format("report_dir {}: process {} still writes there", dir, *owner);
    }
  }
  const std::string older = dir + ".1";
  const OpenedDir target = open_report_dir(older);
  if (!target.error.empty()) return target.error;
  for (const auto& name : report_files_in(older)) ::unlinkat(target.fd.get(), name.c_str(), 0);
  for (const auto& name : names) {
    const std::string from = dir + "/" + name;
    if (::renameat(AT_FDCWD, from.c_str(), target.fd.get(), name.c_str()) != 0) {
      return fmt::format("{}: cannot move it to {}: {}", from, older, std::strerror(errno));
    }
  }
  return {};
}

std::string write_file_atomically(const std::string& path, std::string_view text, unsigned mode) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return fmt::format("{}: this is no regular file and is not replaced", path);
  }
  const std::string temporary = fmt::format("{}.tmp.{}", path, ::getpid());
  ::unlink(temporary.c_str());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  std::string error;
  {
    const FileDescriptor file(::open(temporary.c_str(), kFlags, 0600));
    if (!file) return fmt::format("{}: {}", path, std::strerror(errno));
    ::fchmod(file.get(), mode);
    error = write_all(file.get(), text);
  }
  if (error.empty() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    error = std::strerror(errno);
  }
  if (error.empty()) return {};
  ::unlink(temporary.c_str());
  return fmt::format("{}: {}", path, error);
}

}  // namespace ddpscope
