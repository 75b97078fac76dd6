// Rank files that nobody trusts, through what `ddpscope merge` does with them.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "config/glob.h"
#include "records/jsonl_reader.h"
#include "records/record_json.h"
#include "records/schema_check.h"
#include "records/utf8.h"
#include "report/report_reader.h"
#include "report/report_writer.h"
#include "tests/fuzz/fuzz_target.h"

namespace ddpscope {
namespace {
using fuzz::require;
using Json = nlohmann::ordered_json;

struct Input {
  std::vector<RankFile> files;
  std::vector<SkippedFile> skipped;
};

/// A line `--- <name>` begins the next file.
Input read_all(std::string_view text) {
  constexpr std::string_view kBreak = "--- ";
  Input input;
  std::string name = "out/rank-0.jsonl";
  while (true) {
    const std::size_t end = text.find(kBreak);
    auto result = read_rank_text(name, text.substr(0, end));
    if (auto* file = std::get_if<RankFile>(&result)) {
      input.files.push_back(std::move(*file));
    } else {
      const auto& problem = std::get<ReadProblem>(result);
      require(!problem.text.empty(), "a refusal says why");
      input.skipped.push_back({problem.path, problem.text});
    }
    if (end == std::string_view::npos) return input;
    text.remove_prefix(end + kBreak.size());
    const std::size_t line = std::min(text.find('\n'), text.size());
    name = std::string(text.substr(0, line));
    text.remove_prefix(std::min(line + 1, text.size()));
  }
}

template <typename Record>
void require_round_trip(const Record& record, Record (*decode)(const Json&)) {
  const std::string written = to_json(record).dump();
  const std::string again = to_json(decode(Json::parse(written))).dump();
  require(written == again, "a record is read back equal", written + "\n" + again);
}

void require_round_trips(const RankFile& file) {
  require_round_trip(file.run, &run_from_json);
  for (const auto& model : file.models) require_round_trip(model, &model_from_json);
  for (const auto& finding : file.findings) require_round_trip(finding, &finding_from_json);
  for (const auto& progress : file.progress) require_round_trip(progress, &progress_from_json);
  for (const auto& line : file.suppressions) {
    require_round_trip(line, &suppression_from_json);
  }
  if (file.summary) require_round_trip(*file.summary, &summary_from_json);
}

/// UTF-8 without control characters but line ends.
void require_text(std::string_view text, std::string_view what) {
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    require(point.valid, "a report is UTF-8", what);
    const bool is_control = point.value < 0x20 || (point.value >= 0x7f && point.value < 0xa0);
    require(!is_control || point.value == '\n', "a report has no control characters", what);
    i += point.bytes;
  }
}

/// Nothing but the page's own elements opens or closes.
void require_page(std::string_view page) {
  static const std::set<std::string_view> kOurs = {
      "a",      "article", "b",     "body",    "code",    "details", "div", "footer",
      "h1",     "h2",      "h3",    "h4",      "head",    "html",    "li",  "main",
      "meta",   "nav",     "path",  "svg",     "text",    "p",       "pre", "section",
      "header", "span",    "style", "summary", "table",   "tbody",   "td",  "th",
      "thead",  "title",   "tr",    "ul",      "!DOCTYPE"};
  require_text(page, "html");
  for (std::size_t at = page.find('<'); at != page.npos; at = page.find('<', at + 1)) {
    std::string_view name = page.substr(at + 1, 16);
    if (name.starts_with('/')) name.remove_prefix(1);
    name = name.substr(0, name.find_first_of(" >\n"));
    require(kOurs.count(name) == 1, "an element is ours", page.substr(at, 80));
  }
}

void require_renderings(const MergedReport& report) {
  for (const bool brief : {false, true}) {
    RenderOptions options;
    options.brief = brief;
    options.show_suppressed = !brief;
    require_text(render_console(report, options), "console");
  }
  require_page(render_html(report, {}));
  require_text(render_junit(report, {}), "junit");
  require_text(render_github(report, {}), "github");
  for (const auto& json : {render_sarif(report, {}), render_trace(report, {})}) {
    require(Json::accept(json), "other formats are JSON", json);
  }
  const std::string text = render_json(report, {});
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    require(point.valid, "report.json is UTF-8");
    i += point.bytes;
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  require(json.is_object(), "report.json is JSON", text);
  require(json["findings"].size() == report.findings.size(), "report.json has every finding");
  require(json["coverage"].size() == report.coverage.size(), "report.json has every check");
}

bool has_every_rank_once(const Input& input) {
  std::set<std::int64_t> ranks;
  for (const auto& file : input.files) ranks.insert(file.run.rank);
  return ranks.size() == input.files.size();
}

void merge_all(const Input& input) {
  const MergeOptions options = {.dir_name = "out", .tool_version = "1"};
  MergedReport report = merge(input.files, input.skipped, options);
  require_renderings(report);

  const int code = exit_code(report, Severity::kError, {"grad-missing"});
  require(code == 0 || code == 1 || code == 4, "the exit code is one of the contract");
  require((primary_finding(report) == nullptr) == report.incidents.empty(),
          "a primary is there where an incident is");
  const std::string json = render_json(report, {});
  const auto read = read_report_text("report.json", json);
  if (const auto* same = std::get_if<MergedReport>(&read)) {
    require(same->findings.size() == report.findings.size() && same->primary == report.primary,
            "a report is read back equal");
  }
  check_schema("report.json", json);
  judge_again(report);
  require(json == render_json(report, {}), "judging again changes nothing");
  if (!has_every_rank_once(input)) return;
  std::vector<RankFile> backwards(input.files.rbegin(), input.files.rend());
  require(json == render_json(merge(backwards, input.skipped, options), {}),
          "the order of the files does not matter");
}
}  // namespace
}  // namespace ddpscope

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ddpscope::check_schema("rank-0.jsonl", text);
  ddpscope::check_schema("report.json", text);
  ddpscope::read_report_text("report.json", text);
  const auto input = ddpscope::read_all(text);
  for (const auto& file : input.files) ddpscope::require_round_trips(file);
  if (!input.files.empty()) ddpscope::merge_all(input);
  return 0;
}
