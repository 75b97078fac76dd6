#include "records/report_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "records/rank_file.h"

namespace ddpscope {
namespace {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Creates the folder and its parents. Returns an errno, or 0.
int make_folders(const std::string& dir) {
  if (::mkdir(dir.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  if (errno != ENOENT || parent_of(dir) == dir) return errno;
  if (const int error = make_folders(parent_of(dir)); error != 0) return error;
  return ::mkdir(dir.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

bool is_sticky(const std::string& dir) {
  struct stat info = {};
  return ::stat(dir.c_str(), &info) == 0 && (info.st_mode & S_ISVTX) != 0;
}

OpenedDir refused(const std::string& dir, std::string_view why) {
  return {.fd = {}, .error = fmt::format("report_dir {}: {}", dir, why)};
}

}  // namespace

OpenedDir open_report_dir(const std::string& path) {
  const std::string dir = without_slashes(path);
  if (dir.empty()) return refused("\"\"", "the name is empty");
  if (const int error = make_folders(dir); error != 0) return refused(dir, std::strerror(error));

  struct stat link = {};
  if (::lstat(dir.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    return refused(dir, "this is a symbolic link; name the folder itself");
  }
  FileDescriptor fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return refused(dir, std::strerror(errno));
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return refused(dir, std::strerror(errno));
  if (info.st_uid != ::geteuid() && is_sticky(parent_of(dir))) {
    return refused(dir, "another user made this folder in a shared folder; name one of your own");
  }
  return {.fd = std::move(fd), .error = {}};
}

std::optional<std::int64_t> rank_of_file_name(std::string_view name) {
  constexpr std::string_view kBegin = "rank-";
  constexpr std::string_view kEnd = ".jsonl";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  if (name.size() <= kBegin.size() + kEnd.size()) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  if (name.size() > 1 && name.front() == '0') return std::nullopt;
  if (!std::ranges::all_of(name, [](char letter) { return letter >= '0' && letter <= '9'; })) {
    return std::nullopt;
  }
  std::int64_t rank = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (read.ec != std::errc() || rank > kMaxRank) return std::nullopt;
  return rank;
}

std::string rank_file_name(std::int64_t rank) { return fmt::format("rank-{}.jsonl", rank); }

RankFileList list_rank_files(const std::string& path) {
  const std::string dir = without_slashes(path);
  RankFileList list;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(dir.c_str()), &::closedir);
  if (!stream) {
    list.error = fmt::format("{}: {}", dir, std::strerror(errno));
    return list;
  }
  while (const dirent* entry = ::readdir(stream.get())) {
    const auto rank = rank_of_file_name(entry->d_name);
    if (!rank) continue;
    const std::string file = dir + "/" + entry->d_name;
    struct stat info = {};
    if (::lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      list.files.push_back({.rank = *rank, .path = file});
    } else {
      list.skipped.push_back(file + ": this is no regular file");
    }
  }
  std::ranges::sort(list.files, {}, &RankFileName::rank);
  std::ranges::sort(list.skipped);
  return list;
}

std::string newest_run_id(const std::vector<const RunRecord*>& runs) {
  const RunRecord* newest = nullptr;
  for (const RunRecord* run : runs) {
    const auto age = [](const RunRecord& one) { return std::tie(one.started, one.run_id); };
    if (newest == nullptr || age(*run) > age(*newest)) newest = run;
  }
  return newest == nullptr ? std::string() : newest->run_id;
}

}  // namespace ddpscope
