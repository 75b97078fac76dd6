#include "records/jsonl_reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "records/file_descriptor.h"
#include "records/json_members.h"
#include "records/line_shape.h"
#include "records/record_json.h"
#include "records/regular_file.h"
#include "records/report_dir.h"
#include "records/schema_table.h"
#include "records/schema_walk.h"
#include "records/step_line.h"
#include "records/utf8.h"

namespace ddpscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFindings = 100'000;
constexpr std::size_t kMaxFindingBytes = std::size_t{512} << 20;
constexpr std::size_t kMaxOthers = 10'000;
constexpr std::size_t kMaxSteps = 2048;

/// Takes a rank file line by line.
class RankFileBuilder {
 public:
  explicit RankFileBuilder(const std::string& path) {
    file_.path = path;
    problem_.path = path;
  }

  /// False once the file is refused. `complete`: the line ended in a newline.
  bool take(std::string_view line, bool complete) {
    ++line_;
    if (line.empty()) return true;
    if (const std::string text = shape_problem(line); !text.empty()) return refuse(text);
    if (const auto step = has_run_ ? step_of_plain_line(line) : std::nullopt) {
      take_step(*step);
      return true;
    }
    const Json json = parsed(line);
    if (json.is_discarded() && !complete && has_run_) {
      file_.truncated = true;
      file_.notes.push_back(fmt::format("line {} is incomplete", line_));
      return true;
    }
    problem_.cut_short = json.is_discarded() && !complete;
    if (!json.is_object()) return refuse("the line is no JSON object");
    try {
      return take_record(json, line.size()) && fits_schema(json, line);
    } catch (const std::exception& error) {
      return refuse(error.what());
    }
  }

  bool refuse(std::string text) {
    problem_.line = line_;
    problem_.text = std::move(text);
    refused_ = true;
    return false;
  }

  ReadResult result() {
    if (!refused_ && !has_run_) {
      problem_.cut_short = true;
      refuse(line_ == 0 ? "the file is empty" : "the file holds no record");
    }
    if (refused_) return std::move(problem_);
    if (dropped_ > 0) {
      file_.notes.push_back(
          fmt::format("{} findings beyond {} are left out", dropped_, file_.findings.size()));
    }
    return std::move(file_);
  }

 private:
  static Json parsed(std::string_view line) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_discarded() || is_utf8(line)) return json;
    return Json::parse(valid_json_utf8(line), nullptr, /*allow_exceptions=*/false);
  }

  /// What a reader takes, `validate` takes as well: a report made of it fits the schema, too.
  bool fits_schema(const Json& json, std::string_view line) {
    const auto& owner = json["record"].get_ref<const std::string&>();
    if (!is_owner(owner)) return true;
    const std::string valid = is_utf8(line) ? "" : valid_json_utf8(line);
    const auto wrong = wrong_value(valid.empty() ? line : valid, owner, line_);
    return !wrong || refuse(wrong->text);
  }

  bool take_record(const Json& json, std::size_t bytes) {
    const auto found = json.find("record");
    if (found == json.end() || !found->is_string()) return refuse("the line names no record");
    const auto& record = found->get_ref<const std::string&>();
    if (record == "run") return take_run(json);
    if (!has_run_) return refuse("the first line is no run record");
    if (record == "finding") take_finding(finding_from_json(json), bytes);
    if (record == "model" && file_.models.size() < kMaxOthers) {
      file_.models.push_back(model_from_json(json));
    }
    if (record == "step") take_step(step_from_json(json));
    if (record == "progress" && file_.progress.size() < kMaxOthers) {
      file_.progress.push_back(progress_from_json(json));
    }
    if (record == "suppression" && file_.suppressions.size() < kMaxOthers) {
      file_.suppressions.push_back(suppression_from_json(json));
    }
    if (record == "summary") file_.summary = summary_from_json(json);
    if (record == "limit" && file_.notes.empty()) take_limit(members::text(json, "what"));
    return true;
  }

  /// Of many steps each second one goes, then each second one of those left.
  void take_step(const StepRecord& step) {
    file_.last_step = std::max(file_.last_step, step.step);
    if (step_count_++ % step_stride_ != 0) return;
    file_.steps.push_back(step);
    if (file_.steps.size() < kMaxSteps) return;
    step_stride_ *= 2;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < file_.steps.size(); i += 2) file_.steps[kept++] = file_.steps[i];
    file_.steps.resize(kept);
  }

  void take_limit(const std::string& what) {
    file_.ran_out = what != kReportLimit;
    file_.notes.push_back(file_.ran_out
                              ? "the rank could write no more: " + what.substr(0, 200)
                              : "the file reached max_report_mb; later findings are absent");
  }

  bool take_run(const Json& json) {
    const auto schema = json.find("schema");
    if (schema == json.end() || !schema->is_number_integer() || *schema < 1) {
      return refuse("the run record names no schema");
    }
    if (*schema > kReportSchema) {
      problem_.newer_schema = true;
      return refuse(fmt::format("the schema is newer than {}, the newest that this version reads",
                                kReportSchema));
    }
    RunRecord run = run_from_json(json);
    if (run.rank >= run.world_size) {
      return refuse(
          fmt::format("run.rank is {} of {} ranks, counted from 0", run.rank, run.world_size));
    }
    const bool same = run.run_id == file_.run.run_id && run.rank == file_.run.rank;
    if (has_run_ && !same) return refuse("a second run record is of another run or rank");
    const auto slash = file_.path.rfind('/');
    const std::string_view name = std::string_view(file_.path).substr(slash + 1);
    const auto named = rank_of_file_name(name);
    if (named && *named != run.rank) {
      return refuse(
          fmt::format("the record is of rank {}, the file is named for rank {}", run.rank, *named));
    }
    file_.run = std::move(run);
    has_run_ = true;
    return true;
  }

  void take_finding(Finding finding, std::size_t bytes) {
    const auto known = by_fingerprint_.find(finding.fingerprint);
    if (!finding.fingerprint.empty() && known != by_fingerprint_.end()) {
      file_.findings[known->second] = std::move(finding);
      return;
    }
    finding_bytes_ += bytes;
    if (file_.findings.size() >= kMaxFindings || finding_bytes_ > kMaxFindingBytes) {
      ++dropped_;
      return;
    }
    by_fingerprint_[finding.fingerprint] = file_.findings.size();
    file_.findings.push_back(std::move(finding));
  }

  RankFile file_;
  ReadProblem problem_;
  bool refused_ = false;
  bool has_run_ = false;
  std::int64_t line_ = 0;
  std::int64_t dropped_ = 0;
  std::int64_t step_count_ = 0;
  std::int64_t step_stride_ = 1;
  std::size_t finding_bytes_ = 0;
  std::map<std::string, std::size_t> by_fingerprint_;
};

/// Cuts a stream of bytes into lines of at most kMaxLineBytes.
class LineCutter {
 public:
  explicit LineCutter(RankFileBuilder& builder) : builder_(builder) {}

  bool feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto end = bytes.find('\n');
      const auto part = bytes.substr(0, end);
      if (rest_.size() + part.size() > kMaxLineBytes) {
        builder_.take("", true);
        return builder_.refuse("the line is longer than 1 MiB");
      }
      rest_.append(part);
      if (end == std::string_view::npos) return true;
      const bool go_on = builder_.take(rest_, true);
      rest_.clear();
      if (!go_on) return false;
      bytes.remove_prefix(end + 1);
    }
    return true;
  }

  void finish() {
    if (!rest_.empty()) builder_.take(rest_, false);
  }

 private:
  RankFileBuilder& builder_;
  std::string rest_;
};

}  // namespace

ReadResult read_rank_text(const std::string& path, std::string_view text) {
  RankFileBuilder builder(path);
  LineCutter cutter(builder);
  if (cutter.feed(text)) cutter.finish();
  return builder.result();
}

ReadResult read_rank_file(const std::string& path) {
  FileDescriptor file;
  if (std::string error = open_regular(path, file); !error.empty()) {
    return ReadProblem{.path = path, .text = std::move(error)};
  }
  RankFileBuilder builder(path);
  LineCutter cutter(builder);
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ReadProblem{.path = path, .text = std::strerror(errno)};
    if (got == 0) break;
    if (!cutter.feed({buffer.data(), static_cast<std::size_t>(got)})) return builder.result();
  }
  cutter.finish();
  return builder.result();
}

}  // namespace ddpscope
