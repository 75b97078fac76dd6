#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace ddpscope {

/// A folder that is removed at the end of the test, by the process that made it.
class TemporaryDir {
 public:
  TemporaryDir() : path_((std::filesystem::temp_directory_path() / "ddpscope-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  ~TemporaryDir() {
    std::error_code ignored;
    if (!path_.empty() && ::getpid() == maker_) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  pid_t maker_ = ::getpid();
};

}  // namespace ddpscope
