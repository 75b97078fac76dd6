#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace ddpscope {

/// A folder that is removed at the end of the test, by the process that made it, with what lies
/// beside it under its name and a dot, as the folders of later runs.
class TemporaryDir {
 public:
  TemporaryDir() : path_((std::filesystem::temp_directory_path() / "ddpscope-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  ~TemporaryDir() {
    if (path_.empty() || ::getpid() != maker_) return;
    std::error_code ignored;
    const std::filesystem::path folder = path_;
    std::filesystem::remove_all(folder, ignored);
    for (const auto& entry : std::filesystem::directory_iterator(folder.parent_path(), ignored)) {
      const std::string name = entry.path().filename().string();
      const bool is_beside = name.starts_with(folder.filename().string() + ".");
      if (is_beside) std::filesystem::remove_all(entry.path(), ignored);
    }
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  pid_t maker_ = ::getpid();
};

}  // namespace ddpscope
