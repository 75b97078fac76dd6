#include <functional>

#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::memory_growth_test {
namespace {
constexpr std::int64_t kMiB = 1 << 20;

/// A run whose resident memory after each step is told.
struct Memory {
  Program program{"memory-growth,autograd-graph-retained"};
  std::int64_t limit_bytes = 24 * 1024 * kMiB;
  std::int64_t step = 0;

  Memory() { program.attach(1, {{.id = 1, .path = "head.weight"}}); }
  std::int64_t steps_of_cycle = 1;
  Stamp at() const { return {.step = steps_of_cycle * step, .cycle = step, .thread = 1}; }
  void steps(int count, const std::function<std::int64_t(std::int64_t)>& bytes) {
    for (int i = 0; i < count; ++i) {
      ++step;
      program.send(std::make_unique<HostCountsEvent>(HostCountsEvent{
          .at = at(), .resident_bytes = bytes(step), .limit_bytes = limit_bytes, .cores = 2}));
      program.send(CycleEndEvent{.at = at(), .wall_ms = 1});
    }
  }
  Findings found() { return program.with_id("memory-growth"); }
};

std::int64_t grows(std::int64_t step) { return 1000 * kMiB + 12 * kMiB * step; }
}  // namespace

TEST_CASE("memory-growth reports memory that rises in six windows", "[check]") {
  Memory memory;
  memory.steps(223, grows);
  CHECK(memory.found().empty());
  memory.steps(1, grows);
  REQUIRE(memory.found().size() == 1);
  const Finding finding = memory.found()[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.step == 224);
  CHECK(finding.what ==
        "resident memory grows 12.0 MiB per step; 24.0 GiB are full near step 1965");
  CHECK(finding.why.starts_with("of the outputs of surveyed operators none was alive"));
  CHECK(fact_of<double>(finding, "bytes_per_step") == 12 * kMiB);
  CHECK(fact_of<std::int64_t>(finding, "windows_count") == 6);
  CHECK(fact_of<double>(finding, "fit_ratio") > 0.99);
  CHECK(fact_of<std::int64_t>(finding, "limit_step") == 1965);
}

TEST_CASE("memory-growth takes the lowest use of each window", "[check]") {
  Memory memory;
  memory.steps(224,
               [](std::int64_t step) { return grows(step) + (step % 4 == 0 ? 0 : 500 * kMiB); });
  CHECK(memory.found().size() == 1);
}

TEST_CASE("memory-growth reports memory that grows in some steps alone", "[check]") {
  const std::int64_t every = GENERATE(7, 20, 30);
  Memory memory;
  memory.steps(256, [every](std::int64_t step) { return grows(step / every * every); });
  CHECK(memory.found().size() == 1);
}

TEST_CASE("memory-growth counts the steps of a cycle of several optimizers", "[check]") {
  Memory memory;
  memory.steps_of_cycle = 2;
  memory.steps(224, grows);
  REQUIRE(memory.found().size() == 1);
  CHECK(memory.found()[0].what ==
        "resident memory grows 6.0 MiB per step; 24.0 GiB are full near step 3930");
}

TEST_CASE("memory-growth needs 8 watched cycles of a window where most are not watched",
          "[check]") {
  const int watched_of_8 = GENERATE(1, 4);
  Memory memory;
  for (int group = 0; group < 70 && memory.found().empty(); ++group) {
    memory.steps(watched_of_8, grows);
    memory.step += 8 - watched_of_8;
  }
  REQUIRE(memory.found().size() == 1);
  CHECK(memory.found()[0].step <= 7 * 72);
  CHECK(fact_of<double>(memory.found()[0], "bytes_per_step") == 12 * kMiB);
}

TEST_CASE("memory-growth is blocked where a long run was hardly watched", "[check]") {
  const auto watched_once_in = [](std::int64_t steps) {
    const auto is_level = [](std::int64_t) { return 1000 * kMiB; };
    Memory memory;
    for (memory.step = 0; memory.step < 1100; memory.step += steps - 1) memory.steps(1, is_level);
    memory.program.send(ExitEvent{.at = memory.at()});
    return memory.program.judge().coverage().at("memory-growth");
  };
  CHECK(watched_once_in(8).state == CheckState::kPassed);
  const CheckCoverage hardly = watched_once_in(50);
  CHECK(hardly.state == CheckState::kBlocked);
  CHECK(hardly.why == "2 of 7 windows in 1100 steps: the budget allowed no more");
}

TEST_CASE("memory-growth names what is kept", "[check]") {
  Memory memory;
  memory.program.attach(2, {{.id = 2, .path = "head.weight"}});
  memory.steps(130, grows);
  memory.program.send(std::make_unique<KeptOutputsEvent>(
      KeptOutputsEvent{.at = memory.at(),
                       .outputs = {{.module = 2001,
                                    .op = "aten::linear",
                                    .shape = {256, 512},
                                    .count = 2,
                                    .bytes = 8 * kMiB},
                                   {.op = "aten::relu", .shape = {8}, .count = 1, .bytes = 32}}}));
  memory.steps(94, grows);
  REQUIRE(memory.found().size() == 1);
  const Finding finding = memory.found()[0];
  CHECK(finding.model == "net2");
  CHECK(finding.module_path == "head");
  CHECK(finding.op == "aten::linear");
  CHECK(finding.why ==
        "2 tensors of shape [256, 512] that aten::linear returned are alive after the next step");
  CHECK(fact_of<std::string>(finding, "suspect_module") == "head");
  CHECK(fact_of<std::string>(finding, "suspect_shape") == "[256, 512]");
}

TEST_CASE("memory-growth follows from graphs that are kept", "[check]") {
  Memory memory;
  for (int i = 1; i <= 224; ++i) {
    memory.program.send(std::make_unique<BackwardEvent>(
        BackwardEvent{.at = {.step = i, .cycle = i, .thread = 1}, .roots_alive = std::min(i, 64)}));
    memory.steps(1, grows);
  }
  REQUIRE(memory.found().size() == 1);
  CHECK(memory.found()[0].why.starts_with("backward roots of 64 earlier steps are alive"));
  const Findings causes = memory.program.with_id("autograd-graph-retained");
  REQUIRE(!causes.empty());
  CHECK(memory.found()[0].caused_by == causes[0].fingerprint);
}

TEST_CASE("memory-growth stays silent", "[check]") {
  Memory memory;
  SECTION("on memory that stays reserved") {
    memory.steps(320, [](std::int64_t) { return 1000 * kMiB; });
  }
  SECTION("on the first 64 steps, whatever they allocate") {
    memory.steps(64, grows);
    memory.steps(320, [](std::int64_t) { return grows(64); });
  }
  SECTION("on optimizer state that the first step allocates") {
    memory.steps(320, [](std::int64_t step) { return (step < 2 ? 500 : 1500) * kMiB; });
  }
  SECTION("on a replay buffer that levels off") {
    memory.steps(320, [](std::int64_t step) { return grows(std::min<std::int64_t>(step, 150)); });
  }
  SECTION("on one beside which allocators keep some more") {
    memory.steps(480, [](std::int64_t step) {
      return grows(std::min<std::int64_t>(step, 130)) + kMiB / 2 * 3 * step;
    });
  }
  SECTION("on less than 64 KiB or 0.05 % of the peak per step") {
    memory.steps(240, [](std::int64_t step) { return 50 * kMiB + 60 * 1024 * step; });
    memory.program.drop_events();
    memory.steps(240, [](std::int64_t step) { return 2000 * kMiB + kMiB / 2 * step; });
  }
  SECTION("on one window that does not rise") {
    memory.steps(
        320, [](std::int64_t step) { return step > 150 && step < 190 ? 500 * kMiB : grows(step); });
  }
  SECTION("on memory that jumps") {
    memory.steps(320, [](std::int64_t step) {
      return 1000 * kMiB + kMiB / 16 * step + (step > 160 ? 3000 * kMiB : 0);
    });
  }
  SECTION("while convolutions meet new shapes") {
    for (int window = 0; window < 10; ++window) {
      memory.program.send(std::make_unique<ConvolutionShapeEvent>(
          ConvolutionShapeEvent{.at = memory.at(), .op = "aten::convolution", .shape = {window}}));
      memory.steps(32, grows);
    }
  }
  SECTION("where memory cannot be read") {
    memory.steps(320, [](std::int64_t) { return 0; });
  }
  CHECK(memory.found().empty());
}

TEST_CASE("memory-growth asks for an owner of slow growth", "[check]") {
  const auto slow = [](std::int64_t step) { return 100 * kMiB + kMiB / 2 * step; };
  const auto found_with = [&](std::int64_t kept_bytes) {
    Memory memory;
    memory.steps(130, slow);
    memory.program.send(std::make_unique<KeptOutputsEvent>(KeptOutputsEvent{
        .at = memory.at(),
        .outputs = {{.op = "aten::max", .shape = {}, .count = 1, .bytes = kept_bytes}}}));
    memory.steps(94, slow);
    return memory.found().size();
  };
  CHECK(found_with(4) == 0);
  CHECK(found_with(kMiB / 4) == 1);
}

TEST_CASE("memory-growth forgets what a later survey no longer finds", "[check]") {
  Memory memory;
  const auto survey = [&](std::vector<KeptOutputs> kept) {
    memory.program.send(std::make_unique<KeptOutputsEvent>(
        KeptOutputsEvent{.at = memory.at(), .outputs = std::move(kept)}));
  };
  survey({{.op = "aten::triu", .shape = {512, 512}, .count = 1, .bytes = kMiB}});
  memory.steps(64, grows);
  survey({});
  memory.steps(160, grows);
  REQUIRE(memory.found().size() == 1);
  CHECK(memory.found()[0].why.starts_with("of the outputs of surveyed operators none"));
}

}  // namespace ddpscope::test::memory_growth_test
