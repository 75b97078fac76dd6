#pragma once

#include <stdexcept>
#include <string>

namespace ddpscope {

/// What the program returns; contract.md section 5. `run` also returns the program's own code.
enum class ExitStatus : int {
  kClean = 0,
  kFindings = 1,
  kUsage = 2,
  kInput = 3,
  kIncomplete = 4,
  kInternal = 5,
};

/// Ends a command with one line for the user.
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitStatus status, const std::string& line)
      : std::runtime_error(line), status_(status) {}
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

}  // namespace ddpscope
