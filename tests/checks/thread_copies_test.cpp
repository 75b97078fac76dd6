// Workers that train copies of a model, on a thread each.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::thread_copies_test {
namespace {
/// The shared model, 1 in an optimizer, and a copy of a worker, 2. Both step the optimizer.
struct Workers {
  explicit Workers(const std::string& check) : program(check) {
    program.attach(1, {{.id = 1, .path = "fc.weight"}, {.id = 3, .path = "head.weight"}});
    program.optimizer(1, {1});
  }
  void step(std::uint64_t thread, TensorId leaf) {
    program.thread = thread;
    program.op({.name = "aten::mm", .inputs = {30, leaf}, .outputs = {31}});
    program.backward({leaf});
    program.step(1);
  }
  Program program;
};

/// Nothing while both train, and one finding once the copy has been seen often enough.
void expect_late(Workers& workers) {
  for (int i = 0; i < 12; ++i) {
    workers.step(1, 1);
    workers.step(2, 2);
  }
  CHECK(workers.program.findings.empty());
  for (int i = 0; i < 12; ++i) workers.step(2, 2);
  CHECK(workers.program.findings.size() == 1);
}
}  // namespace

TEST_CASE("optim-missing-parameter waits for how a copy of a thread is written", "[check]") {
  Workers workers("optim-missing-parameter");
  workers.program.attach(2, {{.id = 2, .path = "fc.weight"}});
  expect_late(workers);
}

TEST_CASE("optim-missing-parameter does not wait beside parameters that are held", "[check]") {
  Workers workers("optim-missing-parameter");
  for (int i = 0; i < 5; ++i) {
    workers.step(1, 1);
    workers.step(2, 3);
  }
  REQUIRE(workers.program.findings.size() == 1);
  CHECK(workers.program.findings[0].module_path == "head");
}

TEST_CASE("module-unregistered waits for how a copy of a thread is written", "[check]") {
  Workers workers("module-unregistered");
  workers.program.leaf(2);
  expect_late(workers);
}

TEST_CASE("data-not-reshuffled knows no epochs of several threads", "[check]") {
  Workers workers("data-not-reshuffled");
  for (std::uint64_t i = 0; i < 80; ++i) {
    workers.step(1 + i % 2, 1);
    workers.program.send_now(BatchEvent{.at = {}, .fingerprint = i % 20});
  }
  CHECK(workers.program.findings.empty());
}

}  // namespace ddpscope::test::thread_copies_test
