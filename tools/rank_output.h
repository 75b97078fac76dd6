#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddpscope {

/// Which lines LinePrefixer::last_line() may be: never of a finding or a verdict, and with
/// kOfProgram no line of ddpscope at all.
enum class LastLine : std::uint8_t { kAny, kOfProgram };

/// Turns a stream of bytes into whole lines that begin with a prefix. A lone `\r` ends a line, as
/// progress bars write it. Bytes pass unchanged.
class LinePrefixer {
 public:
  static constexpr std::size_t kMaxLineBytes = 16384;

  explicit LinePrefixer(std::string prefix, LastLine kept = LastLine::kAny)
      : prefix_(std::move(prefix)), kept_(kept) {}

  /// The lines that `bytes` completes. A longer line than kMaxLineBytes is broken.
  std::string feed(std::string_view bytes);
  /// What is held of an incomplete line, as a line.
  std::string flush();

  bool holds_part() const { return !part_.empty(); }
  /// The last line that says what went wrong, cut after 512 bytes.
  const std::string& last_line() const { return last_line_; }

 private:
  bool take_own(std::string_view line);
  void end_line(std::string& into);

  std::string prefix_;
  LastLine kept_;
  std::string part_;
  std::string last_line_;
  bool after_return_ = false;
  bool after_own_ = false;
};

}  // namespace ddpscope
