#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::data_not_reshuffled_test {
namespace {
/// Steps that read these batches.
struct Loop {
  explicit Loop(std::int64_t ranks = 2) : program("data-not-reshuffled", nullptr, ranks) {}

  void read(const std::vector<std::uint64_t>& batches) {
    for (const std::uint64_t batch : batches) {
      program.send(
          std::make_unique<BatchEvent>(BatchEvent{.at = {.step = ++step}, .fingerprint = batch}));
    }
  }

  Program program;
  std::int64_t step = 0;
};

std::vector<std::uint64_t> count(std::uint64_t from, std::uint64_t number) {
  std::vector<std::uint64_t> batches;
  for (std::uint64_t i = 0; i < number; ++i) batches.push_back(from + i);
  return batches;
}
}  // namespace

TEST_CASE("data-not-reshuffled reports an epoch in the order of the one before", "[check]") {
  Loop loop;
  loop.read(count(1, 20));
  loop.read(count(1, 15));
  CHECK(loop.program.findings.empty());
  loop.read({16});
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.step == 36);
  CHECK(finding.what == "epoch 2 delivers the first 16 batches of epoch 1 again");
  CHECK(fact_of<std::int64_t>(finding, "epochs") == 2);
  CHECK(fact_of<std::int64_t>(finding, "compared_batches_count") == 16);
  CHECK(fact_of<std::int64_t>(finding, "epoch_length_batches") == 20);
}

TEST_CASE("data-not-reshuffled compares short epochs whole, and tells them once", "[check]") {
  Loop loop;
  for (int epoch = 0; epoch < 4; ++epoch) loop.read(count(1, 9));
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].step == 18);
}

TEST_CASE("data-not-reshuffled needs no whole epoch where hooks rest", "[check]") {
  Loop loop;
  loop.read(count(1, 64));
  loop.step = 1000;  // the second epoch
  loop.read(count(1, 4));
  loop.step = 1016;
  loop.read(count(17, 3));
  CHECK(loop.program.findings.empty());
  loop.read({20});
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.what == "8 batches that were seen came again at their places, 1000 steps later");
  CHECK(finding.step == 1020);
  CHECK(fact_of<std::int64_t>(finding, "compared_batches_count") == 8);
  CHECK(fact_of<std::int64_t>(finding, "epoch_length_batches") == 1000);
}

TEST_CASE("data-not-reshuffled is a note in one process, which may mean it", "[check]") {
  Loop loop(1);
  for (int epoch = 0; epoch < 2; ++epoch) loop.read(count(1, 20));
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.why.find("torch::manual_seed() in each epoch") != std::string::npos);
  CHECK(finding.fixes[1].text.starts_with("seed once, before the first epoch"));
}

TEST_CASE("data-not-reshuffled stays silent", "[check]") {
  Loop loop;
  SECTION("on another order") {
    loop.read(count(1, 20));
    std::vector<std::uint64_t> second = count(1, 20);
    std::swap(second[7], second[12]);
    loop.read(second);
  }
  SECTION("on fewer than eight batches") {
    for (int epoch = 0; epoch < 5; ++epoch) loop.read(count(1, 7));
  }
  SECTION("on one batch again and again") { loop.read(std::vector<std::uint64_t>(60, 5)); }
  SECTION("on data without repetition") { loop.read(count(1, 60)); }
  SECTION("on another order of which a part was seen") {
    loop.read(count(1, 40));
    for (std::uint64_t i = 0; i < 40; i += 4) {
      loop.read({1 + (i * 7 + 3) % 40, 1 + (i * 7 + 10) % 40});
      loop.step += 2;
    }
  }
  SECTION("where eight batches come again in a row, and then others") {
    loop.read(count(1, 40));
    loop.read(count(1, 8));
    loop.read(count(100, 32));
  }
  SECTION("when events were lost") {
    loop.read(count(1, 20));
    loop.program.drop_events();
    loop.read(count(1, 20));
  }
  CHECK(loop.program.findings.empty());
}

}  // namespace ddpscope::test::data_not_reshuffled_test
