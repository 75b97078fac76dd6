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
  file.models = {{.name = kHostile, .class_name = kHostile, .digest = kHostile}};
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

TEST_CASE("a terminal gets printable text alone", "[report]") {
  CHECK(escape_terminal("a\tb\n\x7f\xc2\x85\xc0\x80") == "a b\\n\\x7f\\u{85}\\xc0\\x80");
  CHECK(escape_terminal("größe €") == "größe €");
}

}  // namespace
}  // namespace ddpscope::test::hostile_test
