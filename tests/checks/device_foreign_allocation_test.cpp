#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::device_foreign_allocation_test {
namespace {
constexpr std::int64_t kMiB = 1 << 20;
constexpr DeviceMemory kHome = {
    .index = 1, .reserved_bytes = 900 * kMiB, .peak_bytes = 900 * kMiB, .has_context = true};

/// One rank of `world_size` whose model lies on cuda:1.
struct Rank : Program {
  explicit Rank(std::int64_t world_size = 4)
      : Program("device-foreign-allocation", nullptr, world_size) {
    attach(1, {{.id = 1, .path = "w", .shape = {900}, .device = "cuda:1"},
               {.id = 2, .path = "b", .shape = {100}, .device = "cpu"}});
  }
  void tell(DeviceMemory other) {
    send_now(DeviceMemoryEvent{.at = {}, .devices = {other, kHome}});
  }
};

DeviceMemory tensors(std::int64_t mib) {
  return {.index = 0, .reserved_bytes = mib * kMiB, .peak_bytes = mib * kMiB, .has_context = true};
}
}  // namespace

TEST_CASE("device-foreign-allocation warns of tensors on another device", "[check]") {
  Rank rank;
  rank.op({.name = "aten::zeros", .outputs = {20}});
  rank.leaf(21, {4}, "cuda:0");
  rank.op({.name = "aten::relu", .outputs = {21}});
  rank.tell(tensors(512));
  rank.tell(tensors(600));
  REQUIRE(rank.findings.size() == 1);
  const Finding& finding = rank.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.confidence == Confidence::kMedium);
  CHECK(finding.subject == "cuda:0");
  CHECK(finding.what == "512.0 MiB allocated on cuda:0, home device cuda:1");
  CHECK(finding.why == "tensors were made on a device that the model is not on");
  CHECK(fact_of<std::string>(finding, "home_device") == "cuda:1");
  CHECK(fact_of<std::string>(finding, "foreign_device") == "cuda:0");
  CHECK(fact_of<std::int64_t>(finding, "bytes_per_rank") == 512 * kMiB);
  CHECK(fact_of<std::string>(finding, "phase") == "init");
  CHECK(fact_of<std::string>(finding, "first_op") == "aten::relu");
  CHECK(fact_of<std::string>(finding, "kind") == "tensor");
}

TEST_CASE("device-foreign-allocation tells where an archive was read to", "[check]") {
  Rank rank;
  rank.send_now(ArchiveTensorEvent{});
  rank.tell(tensors(64));
  REQUIRE(rank.findings.size() == 1);
  CHECK(rank.findings[0].why == "an archive is read to the device it was saved from");
  CHECK(rank.findings[0].fixes[0].text == "torch::load(model, path, torch::kCPU), then to(device)");
}

TEST_CASE("device-foreign-allocation warns of a context without tensors", "[check]") {
  Rank rank;
  rank.tell({.index = 0});
  rank.tell({.index = 0, .has_context = true});
  REQUIRE(rank.findings.size() == 1);
  CHECK(rank.findings[0].what == "a context without tensors on cuda:0, home device cuda:1");
  CHECK(fact_of<std::string>(rank.findings[0], "kind") == "context");
  CHECK(fact_of<std::string>(rank.findings[0], "phase") == "forward");
  CHECK(fact_of<std::int64_t>(rank.findings[0], "bytes_per_rank") == 0);
  CHECK(rank.findings[0].fixes[1].text == "give the barrier its device");
}

TEST_CASE("device-foreign-allocation only notes memory that was freed", "[check]") {
  Rank rank;
  rank.tell({.index = 0, .peak_bytes = 512 * kMiB, .has_context = true});
  REQUIRE(rank.findings.size() == 1);
  CHECK(rank.findings[0].severity == Severity::kNote);
  CHECK(rank.findings[0].what ==
        "512.0 MiB allocated on cuda:0, home device cuda:1, freed before the first step ended");
}

TEST_CASE("device-foreign-allocation stays silent", "[check]") {
  Rank rank;
  SECTION("on small buffers of the communication library") { rank.tell(tensors(63)); }
  SECTION("on a model that is declared sharded") {
    rank.declare("*", "sharded");
    rank.tell(tensors(512));
  }
  SECTION("on a model that lies on several devices") {
    rank.attach(1, {{.id = 1, .path = "w", .shape = {899}, .device = "cuda:1"},
                    {.id = 2, .path = "b", .shape = {101}, .device = "cuda:0"}});
    rank.tell(tensors(512));
  }
  SECTION("on a model of the CPU") {
    rank.attach(1, {{.id = 1, .path = "w", .shape = {900}}});
    rank.tell(tensors(512));
  }
  SECTION("on memory that was freed later") {
    rank.tell(tensors(1));
    rank.tell({.index = 0, .reserved_bytes = kMiB, .peak_bytes = 512 * kMiB, .has_context = true});
  }
  SECTION("on other devices that are not touched") { rank.tell({.index = 0}); }
  CHECK(rank.findings.empty());
}

TEST_CASE("device-foreign-allocation stays silent on one rank", "[check]") {
  Rank rank(1);
  rank.tell(tensors(512));
  CHECK(rank.findings.empty());
}

}  // namespace ddpscope::test::device_foreign_allocation_test
