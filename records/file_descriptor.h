#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace ddpscope {

/// Which file a descriptor stands for. A program may close what it did not open, and its next file
/// then has the same number.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Of what `fd` stands for now; a signal handler may ask. All zero where it stands for nothing.
inline FileIdentity identity_of(int fd) noexcept {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 ? FileIdentity{info.st_dev, info.st_ino} : FileIdentity{};
}

/// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  /// Closes nothing any more.
  void release() { fd_ = -1; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace ddpscope
