#include "records/fault_file.h"

#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::fault_file_test {
namespace {
std::string path_in(const TemporaryDir& dir) { return dir / kFaultFileName; }

std::string problem_of(const TemporaryDir& dir, const std::string& text) {
  std::ofstream(path_in(dir)) << text;
  const auto result = read_fault_file(path_in(dir));
  const auto* problem = std::get_if<ReadProblem>(&result);
  return problem == nullptr ? "" : problem->text;
}

TEST_CASE("a fault record comes back as it was written", "[records]") {
  const TemporaryDir dir;
  const FaultRecord all{.fault = "zero-rate",
                        .steps = 20,
                        .step_ms = 1.5,
                        .planted_step = 9,
                        .found_steps = 12,
                        .timed_out = true,
                        .ended = true};
  CHECK(write_fault_file(dir.path(), {}).empty());
  CHECK(write_fault_file(dir.path(), all).empty());  // replaces
  const auto result = read_fault_file(path_in(dir));
  const auto& read = std::get<FaultRecord>(result);
  CHECK(read.fault == "zero-rate");
  CHECK(read.steps == 20);
  CHECK(read.step_ms == 1.5);
  CHECK(read.planted_step == 9);
  CHECK(read.found_steps == 12);
  CHECK(read.timed_out);
  CHECK(read.ended);
}

TEST_CASE("a fault that was not planted has no step in its record", "[records]") {
  const TemporaryDir dir;
  CHECK(write_fault_file(dir.path(), {.fault = "zero-rate", .steps = 3}).empty());
  const auto result = read_fault_file(path_in(dir));
  const auto& read = std::get<FaultRecord>(result);
  CHECK_FALSE(read.planted_step.has_value());
  CHECK_FALSE(read.found_steps.has_value());
  CHECK_FALSE(read.ended);
}

TEST_CASE("what is no fault record is refused", "[records]") {
  const TemporaryDir dir;
  CHECK_FALSE(problem_of(dir, "").empty());
  CHECK_FALSE(problem_of(dir, "[]").empty());
  CHECK_FALSE(problem_of(dir, R"({"record":"launch"})").empty());
  CHECK_FALSE(problem_of(dir, R"({"record":"fault","fault":"x","steps":"3"})").empty());
}
}  // namespace
}  // namespace ddpscope::test::fault_file_test
