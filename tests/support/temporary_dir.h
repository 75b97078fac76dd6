#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace ddpscope {

/// A folder that is removed at the end of the test.
class TemporaryDir {
 public:
  TemporaryDir() : path_((std::filesystem::temp_directory_path() / "ddpscope-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  ~TemporaryDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ddpscope
