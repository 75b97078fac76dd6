#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddpscope {

/// The environment of a process that will be started.
class ProcessEnvironment {
 public:
  ProcessEnvironment() = default;
  /// Copies a null-terminated array of `NAME=value`.
  explicit ProcessEnvironment(const char* const* entries);

  std::optional<std::string> get(std::string_view name) const;
  void set(std::string_view name, std::string_view value);

  /// For execve(2); valid until the next change.
  std::vector<char*> pointers();

 private:
  std::vector<std::string> entries_;
};

}  // namespace ddpscope
