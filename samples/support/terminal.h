#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace samples {

/// Whether a person sees what goes to this stream as it comes.
inline bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

/// `[######----]`
inline std::string bar(std::int64_t done, std::int64_t all) {
  constexpr std::int64_t kWidth = 40;
  const auto filled = static_cast<std::size_t>(kWidth * done / all);
  return "[" + std::string(filled, '#') + std::string(kWidth - filled, '-') + "]";
}

/// Shows how far a long work is, in one line of a terminal that is gone at the end.
class Progress {
 public:
  Progress(std::string what, std::int64_t all) : what_(std::move(what)), all_(all) {}
  ~Progress() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::int64_t done) {
    if (!shown_) return;
    std::fprintf(stderr, "\r%s %s %d of %d", what_.c_str(), bar(done, all_).c_str(),
                 static_cast<int>(done), static_cast<int>(all_));
    std::fflush(stderr);
  }

 private:
  std::string what_;
  std::int64_t all_;
  bool shown_ = is_terminal(stderr);
};

}  // namespace samples
