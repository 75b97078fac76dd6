#include <filesystem>

#include "report/report_writer.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::sites_test {
namespace {

Frame own(const std::string& function, const std::string& file, std::int64_t line) {
  return {.function = function, .file = file, .line = line, .module = "bin/train", .offset = 0x1f};
}

Frame of_library(const std::string& function, const std::string& file, std::int64_t line) {
  return {.function = function,
          .file = file,
          .line = line,
          .module = "/opt/lib/libtorch_cpu.so",
          .offset = 0x2f,
          .library = true};
}

/// The line of the console that shows the site.
std::string shown(Site site) {
  Finding finding = sample_finding();
  site.role = "saved";
  finding.sites = {std::move(site)};
  const std::string text = render_finding(finding);
  const std::size_t begin = text.find("  saved: ");
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string page(const std::vector<Frame>& frames) {
  RankFile file = {.path = "out/rank-0.jsonl", .run = sample_run(0, 1)};
  Finding finding = sample_finding();
  finding.sites = {{.role = "saved", .frames = frames}};
  file.findings = {finding};
  return render_html(merge({file}, {}), {});
}

}  // namespace

TEST_CASE("a tensor of the root is named, with its model where there are several", "[report]") {
  Finding finding{.id = "grad-missing",
                  .severity = Severity::kWarning,
                  .step = 4,
                  .model = "Net",
                  .subject = "pos_embed",
                  .what = "1 parameter got no gradient"};
  CHECK(render_finding(finding).starts_with("rank 0 step 4 pos_embed: warning: 1 parameter"));
  CHECK(render_finding(finding, {.with_model = true})
            .starts_with("rank 0 step 4 Net.pos_embed: warning: 1 parameter"));
  finding.id = "collective-hang";
  finding.subject = "bucket";
  CHECK(render_finding(finding).starts_with("rank 0 step 4 Net: warning: 1 parameter"));
}

TEST_CASE("a site is where the program's own first frame with a line is", "[report]") {
  const Frame header = of_library("at::relu", "/opt/include/ATen/ops/relu.h", 31);
  CHECK(shown({.frames = {header, own("Net::forward", "net.cpp", 7),
                          own("main", "main.cpp", 9)}}) == "  saved: Net::forward  net.cpp:7");
  CHECK(shown({.frames = {own("helper", "", 0), own("main", "main.cpp", 9)}}) ==
        "  saved: main  main.cpp:9");
}

TEST_CASE("a site without a line of the program is an address and no line of another", "[report]") {
  const Frame header = of_library("at::relu", "/opt/include/ATen/ops/relu.h", 31);
  CHECK(shown({.frames = {header, own("Net::forward", "", 0)}}) ==
        "  saved: Net::forward  train+0x1f");
  CHECK(shown({.frames = {own("Net::forward", "net.cpp", 0)}}) ==
        "  saved: Net::forward  train+0x1f");
  CHECK(shown({.frames = {header}}) == "  saved: at::relu  libtorch_cpu.so+0x2f");
  CHECK(shown({.frames = {{.offset = 0x3f}}}) == "  saved: 0x3f");
}

TEST_CASE("a site without names, and one without frames, say why", "[report]") {
  CHECK(shown({.frames = {own("", "", 0)}, .state = SiteState::kUnsymbolized}) ==
        "  saved: train+0x1f (no names: ddpscope show --symbols DIR finds them)");
  CHECK(shown({.frames = {own("", "", 0), of_library("at::relu", "", 0)}}) ==
        "  saved: train+0x1f (no names: ddpscope show --symbols DIR finds them)");
  CHECK(shown({.frames = {own("", "n.cpp", 4)}, .state = SiteState::kUnsymbolized}) ==
        "  saved: n.cpp:4");
  CHECK(shown({.state = SiteState::kEvicted}) ==
        "  saved: no longer recorded: a larger history= keeps it");
  CHECK(shown({}) == "  saved: not recorded: level=stacks records it");
}

TEST_CASE("a file below the current directory is shown as seen from there", "[report]") {
  const std::string here = std::filesystem::current_path().string();
  CHECK(shown({.frames = {own("main", here + "/src/a.cpp", 3)}}) == "  saved: main  src/a.cpp:3");
  CHECK(shown({.frames = {own("main", here + "2/a.cpp", 3)}}) ==
        "  saved: main  " + here + "2/a.cpp:3");
}

TEST_CASE("the page shows the program's frames and folds those of libraries", "[report]") {
  const std::string html =
      page({of_library("at::relu", "", 0), own("Net::forward", "net.cpp", 7),
            own("main", "main.cpp", 9), of_library("__libc_start_main", "", 0)});
  const auto at = [&](std::string_view text) { return html.find(text, html.find("<h4>Where")); };
  CHECK(at("net.cpp:7") < at("main.cpp:9"));
  CHECK(at("main.cpp:9") < at("<details><summary>Frames of libraries: 2"));
  CHECK(at("<details><summary>Frames of libraries: 2") < at("at::relu"));
  CHECK(at("__libc_start_main") < at("</details>"));
  const std::string single = page({own("Net::forward", "net.cpp", 7)});
  CHECK(single.find("net.cpp:7") == single.rfind("net.cpp:7"));
  CHECK(single.find("Frames of libraries") == std::string::npos);
}

}  // namespace ddpscope::test::sites_test
