#pragma once

#include <cstdint>
#include <string>

namespace ddpscope {

/// What a launcher that names an error file finds there after a rank ended on an exception.
struct ErrorFile {
  std::string message;
  std::string place;  ///< where the rank stood, in the place of a call stack
  std::int64_t unix_seconds = 0;
};

/// Creates `path` in the form that torchrun reads. Never replaces a file; false if it did not.
bool write_error_file(const std::string& path, const ErrorFile& error) noexcept;

}  // namespace ddpscope
