// The texts a user gives us: the variable DDPSCOPE, a config file, a suppressions file.

#include <algorithm>

#include "config/glob.h"
#include "config/parser.h"
#include "config/resolve.h"
#include "config/setting_table.h"
#include "config/suppressions.h"
#include "tests/fuzz/fuzz_target.h"

namespace ddpscope {
namespace {
using fuzz::require;

const CheckIds kChecks = {"module-unregistered", "grad-missing", "tool-rank-missing",
                          "grad-missing.window", "module-unregistered.window"};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

void require_lines(const std::vector<SettingsProblem>& problems) {
  require(problems.size() <= kMaxProblems, "problems are counted");
  for (const auto& problem : problems) {
    require(is_printable(problem.message), "a problem is one printable line", problem.message);
    require(is_printable(problem.fix), "a fix is one printable line", problem.fix);
  }
}

void require_equal(const PartialSettings& left, const PartialSettings& right,
                   std::string_view what) {
  for (const SettingRow& row : setting_table()) {
    require(row.text(left) == row.text(right), what, row.key);
  }
  require(left.check_options == right.check_options, what, "check options");
}

std::string with_escaped_colons(std::string_view value) {
  std::string out;
  for (const char c : value) out += c == ':' ? std::string("\\:") : std::string(1, c);
  return out;
}

template <typename Visit>
void for_each_entry(const PartialSettings& settings, Visit visit) {
  for (const SettingRow& row : setting_table()) {
    if (const auto text = row.text(settings)) {
      visit(std::string(row.key) + "=" + with_escaped_colons(*text));
    }
  }
  for (const auto& [key, value] : settings.check_options) {
    visit(key + "=" + with_escaped_colons(value));
  }
}

/// What was understood is printed, understood again, and is the same.
void require_round_trip(const ParsedSettings& first, bool from_file) {
  PartialSettings again;
  for_each_entry(first.settings, [&](const std::string& entry) {
    const auto parsed =
        from_file ? parse_config_text(entry, "again", kChecks) : parse_environment(entry, kChecks);
    require(parsed.problems.empty(), "a printed setting is read without a problem", entry);
    for (const SettingRow& row : setting_table()) {
      if (const auto text = row.text(parsed.settings)) row.assign(*text, again);
    }
    again.check_options.insert(parsed.settings.check_options.begin(),
                               parsed.settings.check_options.end());
  });
  require_equal(first.settings, again, "a printed setting is read back equal");
  const auto given = parse_options(first.settings, kChecks);
  require(given.problems.empty(), "what a text may say, Options may say");
  require_equal(first.settings, given.settings, "Options are read back equal");
}

void read_environment(const std::string& text) {
  const ParsedSettings parsed = parse_environment(text, kChecks);
  require_lines(parsed.problems);
  require_round_trip(parsed, /*from_file=*/false);
  if (parsed.settings.config_file) return;  // would be opened
  const Resolved resolved = resolve(text, {}, ActivatedBy::kEnvironment, kChecks);
  require_lines(resolved.problems);
  require(parsed.off == (resolved.state == ResolvedState::kOff), "off wins");
  const Settings& settings = resolved.settings;
  for (const auto& item : split_declarations(settings.declare)) {
    require(known_declaration(item.kind), "a kind that was accepted is known", item.kind);
  }
  for (const auto& id : kChecks) {
    if (named_without_glob(settings.checks, id)) {
      require(check_enabled(settings.checks, id), "a named check is enabled", id);
    }
  }
  expand_report_dir(settings.report_dir, 3, 42, text);
}

void read_config(const std::string& text) {
  const ParsedSettings parsed = parse_config_text(text, text.substr(0, 8), kChecks);
  require_lines(parsed.problems);
  require(!parsed.settings.config_file, "a config file names no other");
  require_round_trip(parsed, /*from_file=*/true);
}

Finding finding_for(const Suppression& entry) {
  return {.id = entry.id,
          .model = entry.model.value_or("net"),
          .module_path = entry.module.value_or(""),
          .subject = entry.subject.value_or("weight"),
          .op = entry.op.value_or("aten::add"),
          .fingerprint = entry.id};
}

void read_suppression_lines(const std::string& text) {
  const SuppressionFile file = parse_suppressions(text, text.substr(0, 8));
  for (const auto& problem : file.problems) {
    require(is_printable(problem), "a problem is one printable line", problem);
  }
  SuppressionList list(file, "2030-01-01");
  for (const auto& entry : file.entries) {
    require(matches(entry, finding_for(entry)), "a line matches what it spells out", entry.text);
    require(expired(entry, "2030-01-01") || list.find(finding_for(entry)) != nullptr,
            "a line in force is found", entry.text);
  }
  for (const auto& line : list.records()) {
    require(is_printable(line.text), "a line is told in printable text", line.text);
  }
}
}  // namespace
}  // namespace ddpscope

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ddpscope::read_environment(text);
  ddpscope::read_config(text);
  ddpscope::read_suppression_lines(text);
  return 0;
}
