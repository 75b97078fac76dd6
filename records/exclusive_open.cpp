#include "records/exclusive_open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "records/report_dir.h"

namespace ddpscope {
namespace {

// Processes that start at once take turns. One that stands still meanwhile, or a file system
// without locks, must not hold up the others.
void take_turn(const FileDescriptor& dir) {
  constexpr int kTries = 200;
  for (int i = 0; i < kTries && ::flock(dir.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    ::usleep(5'000);
  }
}

// A program that closed its stderr writes to whatever has that number next.
FileDescriptor above_standard_streams(FileDescriptor file) {
  if (!file || file.get() > STDERR_FILENO) return file;
  return FileDescriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

bool create(const OpenedDir& dir, const std::string& name, ExclusiveFile& result) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int made = ::openat(dir.fd.get(), name.c_str(), kFlags, 0600);
  result.file = above_standard_streams(FileDescriptor(made));
  if (!result.file) return false;
  ::fchmod(result.file.get(), 0600);  // whatever the umask
  return true;
}

bool is_regular(const OpenedDir& dir, const std::string& name) {
  struct stat info = {};
  return ::fstatat(dir.fd.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(info.st_mode);
}

std::string move_stale(const OpenedDir& dir, const std::string& older, const std::string& name) {
  const OpenedDir target = open_report_dir(older);
  if (!target.error.empty()) return target.error;
  if (::renameat(dir.fd.get(), name.c_str(), target.fd.get(), name.c_str()) == 0) return {};
  return fmt::format("{}: cannot move the earlier {} here: {}", older, name, std::strerror(errno));
}

/// What else this rank left in an earlier run. Where that stays, its writer says so.
void move_companions(const OpenedDir& dir, const std::string& older, std::int64_t rank) {
  for (const char* const end : {".ring", ".flight.json"}) {
    const std::string name = fmt::format("rank-{}{}", rank, end);
    if (is_regular(dir, name)) move_stale(dir, older, name);
  }
}

/// A folder of this process alone.
ExclusiveFile open_beside(const std::string& dir, const std::string& name, std::int64_t owner,
                          std::int64_t pid) {
  const std::string other = fmt::format("{}.{}", dir, pid);
  ExclusiveFile result{.path = other + "/" + name};
  OpenedDir opened = open_report_dir(other);
  result.error = std::move(opened.error);
  if (!result.error.empty()) return result;
  if (!create(opened, name, result)) {
    result.error = fmt::format("{}: {}", result.path, std::strerror(errno));
    return result;
  }
  result.notice =
      fmt::format("{} is in use by process {}; this run writes to {}", dir, owner, other);
  return result;
}

}  // namespace

ExclusiveFile open_exclusively(const std::string& dir, const RunRecord& run) {
  const std::string name = rank_file_name(run.rank);
  ExclusiveFile result{.path = dir + "/" + name};
  OpenedDir opened = open_report_dir(dir);
  result.error = std::move(opened.error);
  if (!result.error.empty()) return result;
  take_turn(opened.fd);

  if (!create(opened, name, result) && errno == EEXIST) {
    if (!is_regular(opened, name)) {
      result.error = fmt::format("{}: this is no regular file and is not replaced", result.path);
      return result;
    }
    if (const auto owner = living_owner(result.path, run.host)) {
      return open_beside(dir, name, *owner, run.pid);
    }
    result.error = move_stale(opened, dir + ".1", name);
    if (!result.error.empty()) return result;
    create(opened, name, result);
  }
  if (!result.file) result.error = fmt::format("{}: {}", result.path, std::strerror(errno));
  if (result.file) move_companions(opened, dir + ".1", run.rank);
  result.lock = std::move(opened.fd);
  return result;
}

}  // namespace ddpscope
