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

/// Creates one folder, 0700 whatever the umask. Returns an errno, or 0.
int make_folder(const std::string& dir) {
  if (::mkdir(dir.c_str(), 0700) != 0) return errno == EEXIST ? 0 : errno;
  const FileDescriptor made(::open(dir.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (made) ::chmod(fmt::format("/proc/self/fd/{}", made.get()).c_str(), 0700);
  return 0;
}

/// Creates the folder and its parents. Returns an errno, or 0.
int make_folders(const std::string& dir) {
  const int error = make_folder(dir);
  if (error != ENOENT || parent_of(dir) == dir) return error;
  if (const int above = make_folders(parent_of(dir)); above != 0) return above;
  return make_folder(dir);
}

bool is_sticky(const std::string& dir) {
  struct stat info = {};
  return ::stat(dir.c_str(), &info) == 0 && (info.st_mode & S_ISVTX) != 0;
}

/// The first folder on the way to `dir`, itself included, that another user made in a shared one:
/// who owns it decides where we write. Those of root on the way are the machine's own.
std::string foreign_folder(const std::string& dir) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = dir.find('/', end + 1);
    const std::string part = dir.substr(0, end);
    struct stat info = {};
    if (::lstat(part.c_str(), &info) != 0) return {};
    const bool is_on_the_way = end != std::string::npos;
    const bool is_trusted = info.st_uid == ::geteuid() || (is_on_the_way && info.st_uid == 0);
    if (!is_trusted && is_sticky(parent_of(part))) return part;
  }
  return {};
}

constexpr char kNoRank[] = "ranks are numbers from 0 to 1048576 without a zero before them";

/// The digits in `rank-<digits>.jsonl`; empty for any other name.
std::string_view number_in_file_name(std::string_view name) {
  constexpr std::string_view kBegin = "rank-";
  constexpr std::string_view kEnd = ".jsonl";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  if (name.size() <= kBegin.size() + kEnd.size()) return {};
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  const bool is_number =
      std::ranges::all_of(name, [](char letter) { return letter >= '0' && letter <= '9'; });
  return is_number ? name : std::string_view();
}

OpenedDir refused(const std::string& dir, std::string_view why) {
  return {.fd = {}, .error = fmt::format("report_dir {}: {}", dir, why)};
}

}  // namespace

OpenedDir open_report_dir(const std::string& path) {
  const std::string dir = without_slashes(path);
  if (dir.empty()) return refused("\"\"", "the name is empty");
  if (const std::string foreign = foreign_folder(dir); !foreign.empty()) {
    return refused(dir, fmt::format("another user made {} in a shared folder; name one of your own",
                                    foreign == dir ? "this folder" : foreign));
  }
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
    return refused(dir, "another user replaced this folder just now; name one of your own");
  }
  return {.fd = std::move(fd), .error = {}};
}

std::optional<std::int64_t> rank_of_file_name(std::string_view name) {
  const std::string_view number = number_in_file_name(name);
  if (number.empty() || (number.size() > 1 && number.front() == '0')) return std::nullopt;
  std::int64_t rank = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), rank);
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
    if (number_in_file_name(entry->d_name).empty()) continue;
    const std::string file = dir + "/" + entry->d_name;
    const auto rank = rank_of_file_name(entry->d_name);
    struct stat info = {};
    if (!rank) {
      list.refused.push_back({.path = file, .text = kNoRank});
    } else if (::lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      list.files.push_back({.rank = *rank, .path = file});
    } else {
      list.refused.push_back({.path = file, .text = "this is no regular file"});
    }
  }
  std::ranges::sort(list.files, {}, &RankFileName::rank);
  std::ranges::sort(list.refused, {}, &ReadProblem::path);
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
