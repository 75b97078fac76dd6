#include "tools/rank_output.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxKeptBytes = 512;
}

std::string LinePrefixer::feed(std::string_view bytes) {
  std::string result;
  for (const char c : bytes) {
    const bool ends_the_same_line = c == '\n' && after_return_;
    after_return_ = c == '\r';
    if (ends_the_same_line) continue;
    if (c == '\n' || c == '\r') {
      end_line(result);
      continue;
    }
    if (part_.size() >= kMaxLineBytes) end_line(result);
    part_ += c;
  }
  return result;
}

std::string LinePrefixer::flush() {
  std::string result;
  if (holds_part()) end_line(result);
  return result;
}

void LinePrefixer::end_line(std::string& into) {
  if (part_.find_first_not_of(" \t") != std::string::npos) {
    last_line_ = part_.substr(0, kMaxKeptBytes);
  }
  into += prefix_;
  into += part_;
  into += '\n';
  part_.clear();
}

}  // namespace ddpscope
