#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <memory>

#include "checks/check_table.h"
#include "config/glob.h"
#include "config/suppressions.h"
#include "config/text.h"
#include "records/file_descriptor.h"
#include "tools/command.h"
#include "tools/exit_status.h"

namespace ddpscope {
namespace {
constexpr std::size_t kFingerprintLetters = 16;
constexpr std::size_t kMaxBytes = 1 << 20;

struct SuppressArguments {
  std::string what;
  std::string reason;
  std::string until;
  std::string file = "ddpscope.suppressions";
};

bool is_fingerprint(std::string_view text) {
  return text.size() == kFingerprintLetters &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// An id that no check has would never match.
void require_known(const std::string& id) {
  const auto rows = check_table();
  const auto matches = [&id](const CheckRow& row) { return glob_match(id, row.id); };
  if (is_fingerprint(id) || std::ranges::any_of(rows, matches)) return;
  std::vector<std::string_view> ids;
  for (const auto& row : rows) ids.push_back(row.id);
  const auto near = nearest(id, ids);
  throw CommandError(
      ExitStatus::kUsage,
      fmt::format("{} is neither a fingerprint of 16 hex digits nor the id of a check{}",
                  ddpscope::quoted(id),
                  near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
}

/// The line as the reader of suppressions takes it, or a refusal in the reader's words.
std::string checked_line(const SuppressArguments& options) {
  if (has_control_byte(options.what + options.reason + options.until)) {
    throw CommandError(ExitStatus::kUsage, "a suppression is one line without control characters");
  }
  std::string line = options.what;
  if (!options.until.empty()) line += ":until=" + options.until;
  line += "  # " + options.reason;
  const SuppressionFile parsed = parse_suppressions(line, "suppression");
  if (!parsed.problems.empty()) throw CommandError(ExitStatus::kUsage, parsed.problems.front());
  const bool is_one = parsed.entries.size() == 1;
  if (!is_one) throw CommandError(ExitStatus::kUsage, "no check and no fingerprint is named");
  // The grammar has no way to write such a field.
  if (parsed.entries.front().reason != trim(options.reason)) {
    throw CommandError(
        ExitStatus::kUsage,
        "a # after a blank begins the reason; no field can hold it, but a ? can stand "
        "for it");
  }
  require_known(parsed.entries.front().id);
  if (expired(parsed.entries.front(), today_utc())) {
    throw CommandError(ExitStatus::kUsage, fmt::format("--until {} is past", options.until));
  }
  return line;
}

[[noreturn]] void refuse_file(const std::string& path, std::string_view why) {
  throw CommandError(ExitStatus::kInput, fmt::format("{}: {}", path, why));
}

/// What is in the file, which may be absent.
std::string text_of(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return {};
  FileText text = read_text_file(path, kMaxBytes);
  if (!text.failure.empty()) refuse_file(path, text.failure);
  return std::move(text.text);
}

void append(const std::string& path, const std::string& text) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
  const FileDescriptor file(::open(path.c_str(), kFlags, 0644));
  if (!file) refuse_file(path, ::strerror(errno));
  const ssize_t done = ::write(file.get(), text.data(), text.size());
  if (done != std::ssize(text)) refuse_file(path, done < 0 ? ::strerror(errno) : "it is full");
}

int suppress(const SuppressArguments& options) {
  const std::string line = checked_line(options);
  const std::string before = text_of(options.file);
  const auto lines = split_lines(before);
  if (std::ranges::find(lines, line) != lines.end()) {
    say(fmt::format("{} has this line already", options.file));
    return 0;
  }
  const bool ends_line = before.empty() || before.ends_with('\n');
  append(options.file, (ends_line ? "" : "\n") + line + "\n");
  say(fmt::format("added to {}: {}", options.file, line));
  return 0;
}
}  // namespace

CommandAction make_suppress_command(CLI::App& app) {
  const auto options = std::make_shared<SuppressArguments>();
  app.add_option("ID", options->what,
                 "What to suppress: a fingerprint, an id or a glob of ids; fields may follow it as "
                 "in the file, ID:module=GLOB")
      ->required();
  app.add_option("--reason", options->reason, "Why; kept in the file, and told beside the finding")
      ->required();
  app.add_option("--until", options->until, "Last day in force, YYYY-MM-DD; default: for ever");
  app.add_option("--file", options->file, "File to append to; default: ddpscope.suppressions")
      ->type_name("FILE");
  app.footer(
      "A run reads the file that its setting suppressions names: DDPSCOPE=suppressions=FILE");
  return [options](const CommandContext&) { return suppress(*options); };
}

}  // namespace ddpscope
