#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddpscope {

/// Turns a stream of bytes into whole lines that begin with a prefix. A lone `\r` ends a line, as
/// progress bars write it. Bytes pass unchanged.
class LinePrefixer {
 public:
  static constexpr std::size_t kMaxLineBytes = 16384;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The lines that `bytes` completes. A longer line than kMaxLineBytes is broken.
  std::string feed(std::string_view bytes);
  /// What is held of an incomplete line, as a line.
  std::string flush();

  bool holds_part() const { return !part_.empty(); }
  /// The last line with text in it, cut after 512 bytes.
  const std::string& last_line() const { return last_line_; }

 private:
  void end_line(std::string& into);

  std::string prefix_;
  std::string part_;
  std::string last_line_;
  bool after_return_ = false;
};

}  // namespace ddpscope
