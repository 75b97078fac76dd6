#include "records/jsonl_writer.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "records/exclusive_open.h"
#include "records/line_shape.h"
#include "records/record_json.h"

namespace ddpscope {
namespace {

constexpr char kLimitLine[] = "{{\"record\":\"limit\",\"what\":\"{}\"}}\n";

constexpr std::uint64_t kLastLineBytes = 256;

std::string to_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Leaves room for what JSON adds, so that the reader's limit of a line holds.
std::string cut(const std::string& text) {
  constexpr std::size_t kLongest = 4096;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + " (cut)";
}

std::string to_line(const Finding& finding) {
  std::string line = to_line(to_json(finding));
  if (line.size() <= kMaxLineBytes) return line;
  Finding shorter = finding;
  for (auto* text : {&shorter.model, &shorter.module_path, &shorter.subject, &shorter.op,
                     &shorter.what, &shorter.why}) {
    *text = cut(*text);
  }
  shorter.fixes.clear();
  shorter.facts.clear();
  shorter.sites.clear();
  return to_line(to_json(shorter));
}

std::string to_line(RunRecord run) {
  run.command = redact_command(run.command);
  std::string line = to_line(to_json(run));
  if (line.size() <= kMaxLineBytes) return line;
  run.command.resize(std::min<std::size_t>(run.command.size(), 64));
  for (auto& argument : run.command) argument = cut(argument);
  return to_line(to_json(run));
}

}  // namespace

std::string line_of(const ProgressRecord& progress) { return to_line(to_json(progress)); }

JsonlWriter::Opened JsonlWriter::open(const std::string& dir, const RunRecord& run,
                                      std::int64_t max_bytes) noexcept {
  Opened result;
  try {
    std::string folder = dir;
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    ExclusiveFile opening = open_exclusively(folder, run);
    result.error = std::move(opening.error);
    result.notice = std::move(opening.notice);
    if (!result.error.empty()) return result;
    result.writer =
        std::make_unique<JsonlWriter>(std::move(opening.file), std::move(opening.path), max_bytes);
    if (result.writer->write_run(run)) return result;
    result.error = result.writer->failure();
    result.writer.reset();
  } catch (...) {
    result.writer.reset();
    result.error = "out of memory";
  }
  return result;
}

JsonlWriter::JsonlWriter(FileDescriptor file, std::string path, std::int64_t max_bytes)
    : file_(std::move(file)),
      identity_(identity_of(file_.get())),
      path_(std::move(path)),
      max_bytes_(max_bytes) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0) largest_ = limit.rlim_cur;
}

template <typename Record>
bool JsonlWriter::put(Kind kind, const Record& record) noexcept {
  if (failed_) return false;
  try {
    const std::string line = to_line(record);
    return admits(kind, line.size()) && append(line);
  } catch (...) {
    return false;
  }
}

bool JsonlWriter::write_run(const RunRecord& run) noexcept { return put(Kind::kAlways, run); }
bool JsonlWriter::write_model(const ModelRecord& model) noexcept {
  return put(Kind::kOther, to_json(model));
}
bool JsonlWriter::write_step(const StepRecord& step) noexcept {
  return put(Kind::kOther, to_json(step));
}
bool JsonlWriter::write_digest(const StepDigest& digest) noexcept {
  return put(Kind::kOther, to_json(digest));
}
bool JsonlWriter::write_finding(const Finding& finding) noexcept {
  return put(Kind::kFinding, finding);
}
bool JsonlWriter::write_progress(const ProgressRecord& progress) noexcept {
  return put(Kind::kFinding, to_json(progress));
}
bool JsonlWriter::write_suppression(const SuppressionRecord& suppression) noexcept {
  return put(Kind::kAlways, to_json(suppression));
}
bool JsonlWriter::write_summary(const SummaryRecord& summary) noexcept {
  return put(Kind::kAlways, to_json(summary));
}

bool JsonlWriter::sync() noexcept { return !failed_ && ::fdatasync(file_.get()) == 0; }

bool JsonlWriter::admits(Kind kind, std::size_t bytes) noexcept {
  const std::int64_t after = bytes_written_ + static_cast<std::int64_t>(bytes);
  if (bytes > kMaxLineBytes + 1) return false;
  if (kind == Kind::kAlways) return true;
  if (kind == Kind::kOther) {
    findings_only_ |= after > max_bytes_ || said_full_;
    return !findings_only_;
  }
  if (after <= max_bytes_ && !said_full_) return true;
  if (!said_full_ && after <= max_bytes_ + max_bytes_ / 10) return true;
  if (!said_full_) append(fmt::format(kLimitLine, kReportLimit));
  said_full_ = true;
  return false;
}

bool JsonlWriter::append(std::string_view line) noexcept {
  if (identity_of(file_.get()) != identity_) {
    lose();
    return false;
  }
  // What is written last finds room below the limit of the process.
  if (line.size() + kLastLineBytes > largest_ - static_cast<std::uint64_t>(bytes_written_)) {
    fail(EFBIG);
    return false;
  }
  while (true) {
    const ssize_t done = ::write(file_.get(), line.data(), line.size());
    if (done == static_cast<ssize_t>(line.size())) {
      bytes_written_ += done;
      return true;
    }
    if (done < 0 && errno == EINTR) continue;
    fail(done < 0 ? errno : ENOSPC);
    return false;
  }
}

// The number may be that of a file of the program by now: it is neither written nor closed.
void JsonlWriter::lose() noexcept {
  failed_ = true;
  file_.release();
  try {
    failure_ = path_ + ": the program closed this file";
  } catch (...) {
    failure_.clear();
  }
}

void JsonlWriter::fail(int error) noexcept {
  failed_ = true;
  // A line that was written in part is taken back: what is in the file stays readable, and where
  // it stood a shorter one may fit.
  const bool taken_back = ::ftruncate(file_.get(), bytes_written_) == 0;
  try {
    const std::string last = fmt::format(kLimitLine, std::strerror(error));
    const ssize_t done = taken_back ? ::write(file_.get(), last.data(), last.size()) : 0;
    if (done > 0 && done < std::ssize(last)) ::ftruncate(file_.get(), bytes_written_);
    failure_ = fmt::format("{}: {}{}", path_, std::strerror(error),
                           taken_back ? "" : "; its last line may be incomplete");
  } catch (...) {
    failure_.clear();
  }
}

}  // namespace ddpscope
