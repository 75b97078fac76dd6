#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "tests/support/torch_test.h"

namespace ddpscope::test {

struct Merged {
  int code = -1;
  std::string said;
  bool says(const std::string& text) const { return said.find(text) != std::string::npos; }
};

/// What `ddpscope merge` says of the report folder.
inline Merged merge() {
  Merged merged;
  const std::string command = DDPSCOPE_TOOL " merge " + report_dir() + " 2>&1";
  FILE* const tool = ::popen(command.c_str(), "r");
  REQUIRE(tool != nullptr);
  std::array<char, 4096> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), tool)) {
    merged.said.append(part.data(), count);
  }
  merged.code = WEXITSTATUS(::pclose(tool));
  return merged;
}

}  // namespace ddpscope::test
