#include <map>

#include "checks/check_table.h"
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::device_duplicate_test {
namespace {
RankEnding on(std::int64_t rank, std::string host, std::string uuid) {
  return {.rank = rank,
          .host = std::move(host),
          .device = {.uuid = std::move(uuid), .index = 0, .visible_count = 4}};
}

Findings judged(std::vector<RankEnding> ranks) {
  RanksComparedEvent run;
  run.world_size = std::ssize(ranks);
  run.endings = {.world_size = run.world_size, .ranks = std::move(ranks)};
  Findings findings;
  find_check("device-duplicate")->factory()->on_ranks_compared(run, findings);
  return findings;
}
}  // namespace

TEST_CASE("device-duplicate names ranks of one host on one device", "[check]") {
  const Findings found = judged({on(0, "a", "GPU-5f1c"), on(1, "a", "GPU-77"),
                                 on(2, "a", "GPU-5f1c"), on(3, "a", "GPU-5f1c")});
  REQUIRE(found.size() == 1);
  const Finding& finding = found[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.rank == 0);
  CHECK(finding.ranks == std::vector<std::int64_t>{0, 2, 3});
  CHECK(finding.subject == "GPU-5f1c");
  CHECK(finding.what == "ranks 0,2-3 use the same device GPU-5f1c (index 0 of 4 visible on a)");
  CHECK(finding.why == "each of these ranks selects the device of this index");
  CHECK(cause_of(finding) == "same_index");
  CHECK(fact_of<std::string>(finding, "host") == "a");
  CHECK(fact_of<std::string>(finding, "device_uuid") == "GPU-5f1c");
  CHECK(fact_of<std::vector<FactScalar>>(finding, "ranks").size() == 3);
  CHECK(fact_of<std::int64_t>(finding, "visible_count") == 4);
  CHECK(fact_of<std::int64_t>(finding, "selected_index") == 0);
}

TEST_CASE("device-duplicate names the variable that shows ranks one device", "[check]") {
  RankEnding first = on(0, "a", "GPU-5f1c");
  first.device.visible_count = 1;
  first.device.mask = "CUDA_VISIBLE_DEVICES";
  RankEnding second = first;
  second.rank = 1;
  const Findings found = judged({first, second});
  REQUIRE(found.size() == 1);
  CHECK(cause_of(found[0]) == "launcher_mask");
  CHECK(found[0].why == "CUDA_VISIBLE_DEVICES shows each of these ranks this one device");
  CHECK(found[0].fixes[0].text.find("unset or change CUDA_VISIBLE_DEVICES") != std::string::npos);
}

TEST_CASE("device-duplicate stays silent", "[check]") {
  std::vector<RankEnding> ranks = {on(0, "a", "GPU-5f1c"), on(1, "a", "GPU-5f1c")};
  SECTION("on partitions of one device") { ranks[1].device.uuid = "GPU-5f1d"; }
  SECTION("on ranks that are said to share devices") {
    for (RankEnding& rank : ranks) rank.device.is_shared = true;
  }
  SECTION("on ranks of the CPU") {
    for (RankEnding& rank : ranks) rank.device = {};
  }
  SECTION("on different hosts") { ranks[1].host = "b"; }
  CHECK(judged(ranks).empty());
}

}  // namespace ddpscope::test::device_duplicate_test
