#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "records/file_descriptor.h"
#include "records/rank_file.h"

namespace ddpscope {

inline constexpr std::int64_t kDefaultMaxReportBytes = std::int64_t{256} << 20;

/// As a `JsonlWriter` writes it, with its end.
std::string line_of(const ProgressRecord& progress);

/// Appends records to `rank-<r>.jsonl`, one write(2) per line. Never throws. One thread at a time.
class JsonlWriter {
 public:
  /// `writer` is null exactly when `error` says why. `notice` is one line for the user, or empty.
  struct Opened {
    std::unique_ptr<JsonlWriter> writer;
    std::string error;
    std::string notice;
  };

  /// Creates `dir` and the file of `run.rank`, and writes `run` as its first line. A stale file of
  /// this rank moves to `<dir>.1`; if its owner is alive, `<dir>.<pid>` is used instead.
  static Opened open(const std::string& dir, const RunRecord& run,
                     std::int64_t max_bytes = kDefaultMaxReportBytes) noexcept;

  JsonlWriter(FileDescriptor file, std::string path, std::int64_t max_bytes);

  /// Each returns true if the line is in the file; false beyond `max_bytes` and after a failure.
  /// A later `run` line of the same run replaces the first, as when a source came to life.
  bool write_run(const RunRecord& run) noexcept;
  bool write_model(const ModelRecord& model) noexcept;
  bool write_step(const StepRecord& step) noexcept;
  bool write_digest(const StepDigest& digest) noexcept;
  bool write_finding(const Finding& finding) noexcept;
  bool write_progress(const ProgressRecord& progress) noexcept;
  bool write_suppression(const SuppressionRecord& suppression) noexcept;
  bool write_summary(const SummaryRecord& summary) noexcept;

  bool sync() noexcept;

  /// True after a write failed, as on a full disk, or after the program closed the file; nothing
  /// more is written then.
  bool failed() const { return failed_; }
  /// True once a finding found no room below `max_bytes`.
  bool full() const { return said_full_; }
  /// One line about the failure, or empty.
  const std::string& failure() const { return failure_; }
  std::int64_t bytes_written() const { return bytes_written_; }
  const std::string& path() const { return path_; }
  /// Open for appending as long as the writer lives.
  int descriptor() const { return file_.get(); }

 private:
  enum class Kind { kAlways, kFinding, kOther };
  bool admits(Kind kind, std::size_t bytes) noexcept;
  template <typename Record>
  bool put(Kind kind, const Record& record) noexcept;
  bool append(std::string_view line) noexcept;
  void fail(int error) noexcept;
  void lose() noexcept;

  FileDescriptor file_;
  FileIdentity identity_;
  std::string path_;
  std::int64_t max_bytes_;
  std::int64_t bytes_written_ = 0;
  std::uint64_t largest_ = ~std::uint64_t{0};  // that this process may make a file
  bool failed_ = false;
  bool findings_only_ = false;  // since a record of another kind found no room
  bool said_full_ = false;
  std::string failure_;
};

/// Cuts out values that look like secrets: `--token X`, `--api-key=X`, access key ids.
std::vector<std::string> redact_command(const std::vector<std::string>& command);

}  // namespace ddpscope
