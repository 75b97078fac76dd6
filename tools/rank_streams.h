#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "records/file_descriptor.h"
#include "tools/rank_output.h"
#include "tools/rank_process.h"

namespace ddpscope {

/// Milliseconds of a clock that only runs forward.
std::int64_t now_ms();

/// The output and errors of one rank on their way to the terminal and to `rank-<r>.log`.
class RankStreams {
 public:
  /// Takes the pipes out of `process`. `log_dir` -1: no log.
  RankStreams(std::size_t rank, RankProcess& process, int log_dir);

  static constexpr std::size_t kStreams = 2;
  /// The descriptor to poll, or -1 once it is closed.
  int fd(std::size_t stream) const { return streams_[stream].pipe.get(); }
  bool open() const { return fd(0) >= 0 || fd(1) >= 0; }

  /// Reads what is there.
  void read(std::size_t stream);
  /// Shows incomplete lines that are older than `part_ms`.
  void show_old_parts(std::int64_t part_ms);
  bool holds_part() const;
  void close();

  const std::string& last_error_line() const { return streams_[1].lines.last_line(); }

 private:
  struct Stream {
    FileDescriptor pipe;
    LinePrefixer lines;
    int target = -1;
    std::int64_t held_since_ms = 0;
  };
  void close(Stream& stream);

  std::array<Stream, kStreams> streams_;
  FileDescriptor log_;
};

}  // namespace ddpscope
