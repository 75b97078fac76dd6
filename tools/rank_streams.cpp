#include "tools/rank_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "tools/command.h"

namespace ddpscope {
namespace {
/// False once nobody can take the bytes any more.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

FileDescriptor open_log(std::size_t rank, int log_dir) {
  if (log_dir < 0) return FileDescriptor();
  const auto name = fmt::format("rank-{}.log", rank);
  FileDescriptor log(::openat(log_dir, name.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                              0600));
  if (!log)
    say(fmt::format("{} cannot be created; the output of rank {} is not stored", name, rank));
  return log;
}
}  // namespace

std::int64_t now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

RankStreams::RankStreams(std::size_t rank, RankProcess& process, int log_dir)
    : streams_{Stream{std::move(process.output), LinePrefixer(fmt::format("[rank {}] ", rank)),
                      STDOUT_FILENO},
               Stream{std::move(process.errors),
                      LinePrefixer(fmt::format("[rank {}] ", rank), LastLine::kOfProgram),
                      STDERR_FILENO}},
      log_(open_log(rank, log_dir)) {}

void RankStreams::read(std::size_t index) {
  auto& stream = streams_[index];
  std::vector<char> buffer(65536);
  const auto bytes = ::read(stream.pipe.get(), buffer.data(), buffer.size());
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes <= 0) return close(stream);

  const std::string_view text(buffer.data(), static_cast<std::size_t>(bytes));
  if (log_ && !write_all(log_.get(), text)) {
    say("the output of a rank can no longer be stored: its log cannot be written");
    log_ = FileDescriptor();
  }
  write_all(stream.target, stream.lines.feed(text));
  stream.held_since_ms = now_ms();
}

void RankStreams::show_old_parts(std::int64_t part_ms) {
  for (auto& stream : streams_) {
    if (!stream.lines.holds_part() || now_ms() - stream.held_since_ms < part_ms) continue;
    write_all(stream.target, stream.lines.flush());
  }
}

bool RankStreams::holds_part() const {
  return std::ranges::any_of(streams_, [](const auto& s) { return s.lines.holds_part(); });
}

void RankStreams::close() {
  for (auto& stream : streams_) close(stream);
}

void RankStreams::close(Stream& stream) {
  write_all(stream.target, stream.lines.flush());
  stream.pipe = FileDescriptor();
}

}  // namespace ddpscope
