#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::collective_multi_tensor_test {
namespace {
using enum CollectiveKind;

struct Calls {
  explicit Calls(SiteSource* sites = nullptr) : program("collective-multi-tensor", sites) {
    program.attach(1, {{.id = 1, .path = "conv.weight"},
                       {.id = 2, .path = "conv.bias"},
                       {.id = 3, .path = "gain", .shape = {4, 1}}});
  }

  Findings after(CollectiveEvent event) {
    event.backend = event.backend.empty() ? "gloo" : event.backend;
    program.send_now(std::move(event));
    return program.findings;
  }

  Program program;
};

CollectiveEvent list_of(std::int64_t length) {
  return {.kind = kAllReduce,
          .list = length,
          .distinct_storages = length,
          .elements_min = 4,
          .elements_max = 4};
}
}  // namespace

TEST_CASE("collective-multi-tensor reports gradients that are added to each other", "[check]") {
  Calls calls;
  CollectiveEvent event = list_of(2);
  event.gradients_of = {1, 2};
  event.tensors = {0, 0};
  const Findings found = calls.after(event);
  REQUIRE(found.size() == 1);
  const Finding& finding = found[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.op == "all_reduce");
  CHECK(finding.what ==
        "2 different gradients passed as one list; this backend adds them to each other");
  CHECK(finding.fixes.size() == 2);
  CHECK(fact_of<std::string>(finding, "backend") == "gloo");
  CHECK(fact_of<std::int64_t>(finding, "list_length") == 2);
  CHECK(fact_of<std::int64_t>(finding, "distinct_storages_count") == 2);
  CHECK(fact_of<std::int64_t>(finding, "numel_min") == 4);
  CHECK(fact_of<std::int64_t>(finding, "numel_max") == 4);
}

TEST_CASE("collective-multi-tensor says what becomes of the list", "[check]") {
  CollectiveEvent event = list_of(3);
  std::string what = "3 different tensors passed as one list; ";
  SECTION("which a broadcast overwrites") {
    event.kind = kBroadcast;
    event.tensors = {1, 2, 0};
    what += "this backend copies one of them over the others";
  }
  SECTION("which a broadcast of registered tensors overwrites") {
    event.kind = kBroadcast;
    event.tensors = {1, 2, 1};
    what =
        "3 different registered tensors passed as one list; this backend copies one of them "
        "over the others";
  }
  SECTION("which is refused where sizes differ") {
    event.elements_max = 5;
    what += "this backend refuses such a list";
  }
  SECTION("which is refused where shapes differ") {
    event.gradients_of = {1, 3, 1};
    what = "3 different gradients passed as one list; this backend refuses such a list";
  }
  SECTION("which a reduction to one rank refuses") {
    event.kind = kReduce;
    what += "this backend refuses such a list";
  }
  SECTION("which NCCL refuses") {
    event.backend = "nccl";
    what += "NCCL takes one tensor per call and refuses a list";
  }
  Calls calls;
  const Findings found = calls.after(event);
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == what);
}

TEST_CASE("collective-multi-tensor finds parts of one buffer that are different gradients",
          "[check]") {
  CollectiveEvent event = list_of(2);
  event.distinct_storages = 1;
  SECTION("by their parameters") { event.gradients_of = {1, 2}; }
  SECTION("by what they are") { event.tensors = {1, 2}; }
  Calls calls;
  CHECK(calls.after(event).size() == 1);
}

TEST_CASE("collective-multi-tensor stays silent", "[check]") {
  CollectiveEvent event = list_of(2);
  event.gradients_of = {1, 2};
  SECTION("on coalesced calls") { event.coalesced = true; }
  SECTION("on lists of one") { event = list_of(1); }
  SECTION("on one tensor per device") { event.devices = 2; }
  SECTION("on the same tensor twice") {
    event.distinct_storages = 1;
    event.gradients_of = {1, 1};
  }
  SECTION("on parts of one buffer of which nothing is known") {
    event.distinct_storages = 1;
    event.gradients_of = {0, 2};
  }
  SECTION("on lists that are gathered") { event.kind = kAllGather; }
  SECTION("on lists that are scattered") { event.kind = kReduceScatter; }
  Calls calls;
  CHECK(calls.after(event).empty());
}

}  // namespace ddpscope::test::collective_multi_tensor_test
