#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::tool_hook_refused_test {
namespace {
HookRefusedEvent refused() {
  return {.sources = {"gradient"},
          .point = "post-accumulate hooks",
          .reason = "belong to the program",
          .fallback = "gradient order is taken from accumulator hooks",
          .occupied_count = 12};
}
}  // namespace

TEST_CASE("tool-hook-refused notes hooks of the program and what is used instead", "[check]") {
  Program program("tool-hook-refused");
  program.send_now(refused());
  program.send_now(refused());
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.what ==
        "post-accumulate hooks (12) belong to the program; gradient order is taken from "
        "accumulator hooks instead");
  CHECK(fact_of<std::vector<FactScalar>>(finding, "blind_ids").empty());
}

TEST_CASE("tool-hook-refused names the checks that are blind without a point", "[check]") {
  Program program("tool-hook-refused");
  HookRefusedEvent event = refused();
  event.sources = {"archive"};
  event.fallback = "";
  program.send_now(event);
  REQUIRE(program.findings.size() == 1);
  CHECK(fact_of<std::vector<FactScalar>>(program.findings[0], "blind_ids") ==
        std::vector<FactScalar>{std::string("checkpoint-load")});
  CHECK(program.findings[0].why.ends_with("these checks cannot run: checkpoint-load"));
}

TEST_CASE("tool-hook-refused counts the checks of many sources, and gives the fix", "[check]") {
  Program program("tool-hook-refused");
  HookRefusedEvent event = refused();
  event.sources = {"archive", "gradient", "optimizer"};
  event.fallback = "";
  event.fix = "link it";
  program.send_now(event);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  const auto ids = fact_of<std::vector<FactScalar>>(finding, "blind_ids");
  CHECK(ids.size() > 12);
  CHECK(finding.why.ends_with("; " + std::to_string(ids.size()) + " checks cannot run"));
  REQUIRE(finding.fixes.size() == 1);
  CHECK(finding.fixes[0].text == "link it; or use ddpscope run");
}

TEST_CASE("tool-hook-refused tells another LibTorch by both versions", "[check]") {
  Program program("tool-hook-refused");
  HookRefusedEvent event = refused();
  event.built_version = "2.11.0";
  event.running_version = "2.9.0";
  program.send_now(event);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what.ends_with("built for LibTorch 2.11.0, the program runs 2.9.0"));
}

TEST_CASE("tool-hook-refused stays silent where nothing was refused", "[check]") {
  Program program("tool-hook-refused");
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  program.exit();
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::tool_hook_refused_test
