// Parameters that set_data() gives new values, as of master weights of another type.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::moved_parameters_test {
namespace {
/// An optimizer steps copies that no module registers; a backward reaches the model alone.
struct Masters {
  explicit Masters(const std::string& checks) : program(checks) {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
    program.leaf(11);
    program.leaf(12);
    program.optimizer(1, {11, 12});
  }
  void train(int steps, bool moves) {
    for (int i = 0; i < steps; ++i) {
      if (moves) ++storage_;
      for (const TensorId id : {TensorId{1}, TensorId{2}}) {
        program.send_now(GradientEvent{.tensor = id, .storage = 100 * storage_ + id});
      }
      program.clear({11, 12}, GradientBefore::kReset);  // the program gives them one
      program.backward({1, 2});
      program.step(1);
    }
  }
  Program program;

 private:
  std::uint64_t storage_ = 1;
};
}  // namespace

TEST_CASE("optim-missing-parameter knows parameters that get new data in each step", "[check]") {
  Masters masters("optim-missing-parameter,optim-foreign-parameter");
  masters.train(40, /*moves=*/true);
  masters.train(4, /*moves=*/false);  // as steps that are skipped
  masters.train(4, /*moves=*/true);
  masters.program.exit();
  CHECK(masters.program.findings.empty());
}

TEST_CASE("optim-missing-parameter reports parameters that keep their memory", "[check]") {
  Masters masters("optim-missing-parameter");
  masters.train(2, /*moves=*/false);
  SECTION("from the first") {}
  SECTION("after one move, as to another type") { masters.train(1, /*moves=*/true); }
  masters.train(12, /*moves=*/false);
  REQUIRE(masters.program.findings.size() == 1);
  CHECK(masters.program.findings[0].severity == Severity::kError);
}

TEST_CASE("optim-missing-parameter judges no few gradients that lie apart", "[check]") {
  Masters masters("optim-missing-parameter");
  for (int i = 0; i < 3; ++i) {
    masters.train(1, /*moves=*/false);
    masters.program.rest(1, 3);
  }
  CHECK(masters.program.findings.empty());
  masters.train(2, /*moves=*/false);
  CHECK(masters.program.findings.size() == 1);
}

TEST_CASE("optim-missing-parameter waits where parameters moved once", "[check]") {
  Masters masters("optim-missing-parameter");
  masters.train(1, /*moves=*/false);
  masters.train(1, /*moves=*/true);
  masters.train(4, /*moves=*/false);
  CHECK(masters.program.findings.empty());
  masters.train(8, /*moves=*/false);
  CHECK(masters.program.findings.size() == 1);
}

}  // namespace ddpscope::test::moved_parameters_test
