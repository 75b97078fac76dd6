#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::perf_sync_calls_test {
namespace {
using enum WaitIn;

/// Steps of 140 ms in a program that trains on a device.
struct Steps {
  explicit Steps(SiteSource* sites = nullptr) : program("perf-sync-calls", sites) {
    program.attach(1, {{.id = 1, .path = "bn1.weight"}, {.id = 2, .path = "bn2.weight"}});
  }

  void run(int count, const std::vector<DeviceWait>& waits, double step_ms = 140) {
    for (int i = 0; i < count; ++i) {
      ++step;
      program.send(std::make_unique<DeviceWaitsEvent>(
          DeviceWaitsEvent{.at = {.step = step, .cycle = step, .thread = 1},
                           .step_ms = step == 1 ? 0 : step_ms,
                           .waits = waits}));
    }
  }

  Program program;
  std::int64_t step = 0;
};

/// The modules of `Steps` have the numbers 1000 (the root), 1001 and 1002.
DeviceWait waits(WaitIn function, std::int64_t count, double waited_ms = 0, ModuleId module = 0) {
  return {.function = function, .module = module, .count = count, .waited_ms = waited_ms};
}

struct Lines final : SiteSource {
  Site site(StackId stack) override {
    const auto line = static_cast<std::int64_t>(stack);
    return {.frames = {{.function = "train", .file = "src/model.cpp", .line = line}}};
  }
};

std::vector<std::string> list_fact(const Finding& finding, std::string_view key) {
  std::vector<std::string> texts;
  for (const FactScalar& item : fact_of<std::vector<FactScalar>>(finding, key)) {
    texts.push_back(std::get<std::string>(item));
  }
  return texts;
}

std::string what_of(const std::vector<DeviceWait>& waits) {
  Steps steps;
  steps.run(60, waits);
  REQUIRE(steps.program.findings.size() == 1);
  return steps.program.findings[0].what;
}
}  // namespace

TEST_CASE("perf-sync-calls reports steps that wait for the device again and again", "[check]") {
  Steps steps;
  const std::vector<DeviceWait> each = {waits(kItem, 5, 3), waits(kNonzero, 30, 10, 1001),
                                        waits(kNonzero, 23, 6, 1002)};
  steps.run(59, each);
  CHECK(steps.program.findings.empty());
  steps.run(1, each);
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.evidence_status == EvidenceStatus::kEstablished);
  CHECK(finding.step == 60);
  CHECK(finding.model == "net");
  CHECK(finding.what ==
        "58 device waits per step, 19 ms (14 %); 53 are boolean indexing or nonzero in bn*");
  CHECK(finding.fixes.at(0).text.starts_with("torch::where instead of boolean indexing"));
  CHECK(finding.fixes.at(1).text.starts_with("read the loss each 100 steps"));
  CHECK(fact_of<std::int64_t>(finding, "waits_count") == 58);
  CHECK(fact_of<double>(finding, "waited_ms") == 19);
  CHECK(fact_of<double>(finding, "share_ratio") == 19.0 / 140);
  CHECK(list_fact(finding, "top_ops") ==
        std::vector<std::string>{"aten::nonzero x53", "aten::item x5"});
  CHECK(list_fact(finding, "top_sites") == std::vector<std::string>{"bn1 x30", "bn2 x23"});
}

TEST_CASE("perf-sync-calls is a note where the waits take little of the step", "[check]") {
  Steps steps;
  steps.run(60, {waits(kItem, 4, 7)});
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].severity == Severity::kNote);
  CHECK(steps.program.findings[0].what ==
        "4 device waits per step, 7.0 ms (5 %); 4 are reads of a number (item)");
  steps.run(50, {waits(kItem, 4, 7.1)});
  REQUIRE(steps.program.findings.size() == 2);
  CHECK(steps.program.findings[1].severity == Severity::kWarning);
  CHECK(steps.program.findings[1].fingerprint == steps.program.findings[0].fingerprint);
}

TEST_CASE("perf-sync-calls names the lines that wait, most first", "[check]") {
  Lines lines;
  Steps steps(&lines);
  std::vector<DeviceWait> each;
  for (const int count : {1, 4, 3, 2}) {
    each.push_back(waits(kCopy, count));
    each.back().stack = static_cast<StackId>(80 + count);
  }
  steps.run(60, each);
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.what.ends_with("10 are copies to the host"));
  CHECK(list_fact(finding, "top_sites") ==
        std::vector<std::string>{"model.cpp:84 x4", "model.cpp:83 x3", "model.cpp:82 x2"});
  REQUIRE(finding.sites.size() == 3);
  CHECK(finding.sites[0].role == "called");
}

TEST_CASE("perf-sync-calls says where only as far as all places have it in common", "[check]") {
  CHECK(what_of({waits(kNonzero, 4, 0, 1001)}).ends_with("nonzero in bn1"));
  CHECK(what_of({waits(kNonzero, 4, 0, 1001), waits(kNonzero, 4)})
            .ends_with("8 are boolean indexing or nonzero"));
  CHECK(what_of({waits(kItem, 1), waits(kCopy, 1), waits(kNonzero, 1), waits(kMaskedSelect, 1)})
            .ends_with("(0 %)"));
}

TEST_CASE("perf-sync-calls tells what to do instead of each kind once", "[check]") {
  Steps steps;
  steps.run(60, {waits(kWork, 5), waits(kDevice, 4), waits(kStream, 3), waits(kMaskedSelect, 2)});
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.what.ends_with("5 are waits for other ranks"));
  REQUIRE(finding.fixes.size() == 2);
  CHECK(finding.fixes[0].text.starts_with("start the collectives of all tensors"));
  CHECK(finding.fixes[1].text.starts_with("synchronize only where time is measured"));
}

TEST_CASE("perf-sync-calls tells the waits of a usual step", "[check]") {
  Steps steps;
  steps.run(35, {waits(kItem, 5, 20)});
  steps.run(25, {waits(kItem, 90, 90)});
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].what.starts_with("90 device waits per step"));
  steps.run(26, {waits(kItem, 5, 20)});
  steps.run(24, {waits(kItem, 90, 90)});
  REQUIRE(steps.program.judge().findings().size() == 1);
  const Finding last = steps.program.judge().findings()[0];
  CHECK(last.what.starts_with("5 device waits per step"));
  CHECK(list_fact(last, "top_ops") == std::vector<std::string>{"aten::item x5"});
}

TEST_CASE("perf-sync-calls stays silent", "[check]") {
  Steps steps;
  SECTION("on up to three waits per step, however long they are") {
    steps.run(160, {waits(kItem, 3, 120)});
  }
  SECTION("on waits in less than half of the steps, as to print each tenth") {
    for (int i = 0; i < 16; ++i) {
      steps.run(9, {});
      steps.run(1, {waits(kItem, 500, 70)});
    }
  }
  SECTION("on the first ten steps, and before 50 more have been seen") {
    steps.run(59, {waits(kItem, 9, 70)});
    steps.program.drop_events();
    steps.run(49, {waits(kItem, 9, 70)});
  }
  SECTION("on steps of unknown length") { steps.run(160, {waits(kItem, 9, 70)}, /*step_ms=*/0); }
  SECTION("on a host, whose reads wait for nothing") {
    for (int i = 1; i < 160; ++i) {
      steps.program.send(std::make_unique<DeviceWaitsEvent>(DeviceWaitsEvent{
          .at = {.step = i, .cycle = i, .thread = 1}, .step_ms = 5, .host_reads = 40}));
    }
  }
  CHECK(steps.program.findings.empty());
}

}  // namespace ddpscope::test::perf_sync_calls_test
