#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::tool_ring_evicted_test {
namespace {
StaleSavedEvent evicted(TensorId id) {
  StaleSavedEvent event = stale(id);
  event.writer.reset();
  event.writer_evicted = true;
  event.history = 16;
  event.age_writes = 100;
  return event;
}
}  // namespace

TEST_CASE("tool-ring-evicted says whose writer is missing and which setting helps", "[check]") {
  Program program("tool-ring-evicted");
  program.attach(1, {{.id = 1, .path = "fc.weight"}});
  program.send_now(evicted(1));
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.what == "the writer of fc.weight is older than the history of 16 writes");
  CHECK(finding.fixes[0].text == "DDPSCOPE=history=64");
  CHECK(fact_of<std::int64_t>(finding, "capacity_count") == 16);
  CHECK(fact_of<std::int64_t>(finding, "age_count") == 100);
  CHECK(fact_of<std::vector<FactScalar>>(finding, "affected_ids") ==
        std::vector<FactScalar>{std::string("autograd-inplace-saved")});
}

TEST_CASE("tool-ring-evicted tells the check of buffers from that of others", "[check]") {
  Program program("tool-ring-evicted");
  program.attach(1, {{.id = 1, .path = "norm.running_mean", .is_buffer = true}});
  program.send_now(evicted(1));
  REQUIRE(program.findings.size() == 1);
  CHECK(fact_of<std::vector<FactScalar>>(program.findings[0], "affected_ids") ==
        std::vector<FactScalar>{std::string("norm-buffer-overwritten")});
}

TEST_CASE("tool-ring-evicted counts dropped events", "[check]") {
  Program program("tool-ring-evicted");
  program.send(DroppedEvent{5});
  program.send(DroppedEvent{7});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(fact_of<std::int64_t>(program.findings[0], "dropped_count") == 12);
}

TEST_CASE("tool-ring-evicted stays silent", "[check]") {
  Program program("tool-ring-evicted");
  SECTION("where the writer is known") { program.send_now(stale(1)); }
  SECTION("where a writer is unknown for another reason") {
    StaleSavedEvent event = evicted(1);
    event.writer_evicted = false;
    program.send_now(std::move(event));
  }
  SECTION("on fewer dropped events than one in a thousand") {
    for (int i = 0; i < 4000; ++i) program.send(BackwardEndEvent{.at = program.now()});
    program.send(DroppedEvent{3});
  }
  program.exit();
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::tool_ring_evicted_test
