#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/escape.h"
#include "report/report_writer.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::hostile_test {
namespace {

const std::string kHostile =
    "</script><img src=x onerror=\"a('b')\">\x1b[31m\n\r\xff\xe2\x80\xae&\x07";

MergedReport hostile_report() {
  RankFile file = {.path = kHostile, .run = sample_run(0, 2)};
  Finding finding = sample_finding();
  for (auto* text : {&finding.id, &finding.model, &finding.module_path, &finding.subject,
                     &finding.op, &finding.what, &finding.why, &finding.fingerprint}) {
    *text = kHostile;
  }
  finding.fixes = {{kHostile, Applicability::kSafe}};
  finding.facts = {{kHostile, kHostile}};
  finding.sites = {{kHostile, {{kHostile, kHostile, 3, kHostile, 1, kHostile}}}, {kHostile, {}}};
  file.run.run_id = file.run.host = file.run.device = file.run.started = kHostile;
  file.run.torch_version = file.run.cuda = file.run.nccl = kHostile;
  file.run.command = {kHostile};
  file.run.settings = {{kHostile, {kHostile, kHostile}}};
  file.run.sources = file.run.blocked = {{kHostile, kHostile}};
  file.run.checks = {kHostile};
  file.models = {{.name = kHostile,
                  .class_name = kHostile,
                  .digest = kHostile,
                  .tree = {{.path = kHostile, .class_name = kHostile},
                           {.path = std::string(100'000, '.'), .class_name = kHostile}}}};
  file.findings = {finding};
  file.progress = {{.reason = kHostile, .what = kHostile}};
  file.notes = {kHostile};
  return merge({file}, {{kHostile, kHostile}}, {.dir_name = kHostile, .tool_version = kHostile});
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("hostile names stay text on the page", "[report]") {
  const std::string page = render_html(hostile_report(), {});
  CHECK_FALSE(has(page, "<img"));
  CHECK_FALSE(has(page, "</script"));
  CHECK_FALSE(has(page, "\x1b"));
  CHECK_FALSE(has(page, "\xff"));
  CHECK_FALSE(has(page, "\xe2\x80\xae"));
  CHECK(has(page, "&lt;img src=x onerror=&quot;a(&#39;b&#39;)&quot;&gt;"));
  CHECK(has(page, "default-src 'none'; style-src 'unsafe-inline'"));
}

TEST_CASE("hostile names stay on one line of the terminal", "[report]") {
  const RenderOptions options = {.report_path = kHostile};
  for (const bool brief : {true, false}) {
    RenderOptions own = options;
    own.brief = brief;
    const std::string text = render_console(hostile_report(), own);
    for (const char* raw : {"\x1b", "\r", "\xff", "\xe2\x80\xae", "\x07"})
      CHECK_FALSE(has(text, raw));
    CHECK(has(text, "\\x1b[31m\\n\\x0d\\xff\\u{202e}&\\x07"));
  }
  CHECK_FALSE(has(describe({.path = kHostile, .line = 1, .text = kHostile}), "\x1b"));
}

TEST_CASE("hostile names stay strings of the JSON report", "[report]") {
  const auto json = nlohmann::json::parse(render_json(hostile_report(), {}));
  const std::string text = json["findings"][0]["what"];
  CHECK(text == "</script><img src=x onerror=\"a('b')\">\x1b[31m\n\r\\xff\xe2\x80\xae&\x07");
}

TEST_CASE("hostile names stay text of XML", "[report]") {
  const std::string xml = render_junit(hostile_report(), {});
  CHECK_FALSE(has(xml, "<img"));
  for (const char* raw : {"\x1b", "\r", "\xff", "\x07"}) CHECK_FALSE(has(xml, raw));
  CHECK(has(xml, "message=\"&lt;/script&gt;&lt;img src=x onerror=&quot;a(&#39;b&#39;)&quot;&gt;"));
  CHECK(escape_xml("\xef\xbf\xbe \xef\xbf\xbf") == "\\u{fffe} \\u{ffff}");
}

TEST_CASE("hostile names stay strings of SARIF and of a trace", "[report]") {
  const auto sarif = nlohmann::json::parse(render_sarif(hostile_report(), {}));
  const auto& result = sarif["runs"][0]["results"][0];
  const std::string snippet =
      result["stacks"][0]["frames"][0]["location"]["physicalLocation"]["region"]["snippet"]["text"];
  CHECK(snippet == "</script><img src=x onerror=\"a('b')\">\x1b[31m\n\r\\xff\xe2\x80\xae&\x07");
  CHECK(escape_uri("a b:c/%?#\xff") == "a%20b%3Ac/%25%3F%23%FF");
  auto report = hostile_report();
  report.ranks[0].calls = {{.name = kHostile, .unix_ns = 5}};
  report.ranks[0].sampled_steps = {{.step = 1, .wall_ms = std::nan(""), .time_unix_ns = -7},
                                   {.step = 2, .wall_ms = -1e300, .time_unix_ns = INT64_MAX}};
  const auto trace = nlohmann::json::parse(render_trace(report, {}));
  CHECK(trace["traceEvents"].size() > 6);
}

TEST_CASE("a hostile name begins no other annotation", "[report]") {
  const std::string text = render_github(hostile_report(), {});
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  for (const char* raw : {"\x1b", "\r", "\xff"}) CHECK_FALSE(has(text, raw));
  MergedReport report;
  report.findings = {{.id = "a:b,c%", .what = "100%\n::error::x"}};
  CHECK(render_github(report, {}) ==
        "::warning title=a%3Ab%2Cc%25::rank 0 step 0: 100%25\\n::error::x\n");
}

TEST_CASE("a terminal gets printable text alone", "[report]") {
  CHECK(escape_terminal("a\tb\n\x7f\xc2\x85\xc0\x80") == "a b\\n\\x7f\\u{85}\\xc0\\x80");
  CHECK(escape_terminal("größe €") == "größe €");
}

}  // namespace
}  // namespace ddpscope::test::hostile_test
