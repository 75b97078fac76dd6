#include "records/error_file.h"

#include <fstream>
#include <iterator>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::error_file_test {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("an error file has the form that launchers read", "[records]") {
  const TemporaryDir dir;
  CHECK(write_error_file(dir / "error.json", {"c10::Error: \"x\"", "in forward", 1900000000}));
  CHECK(text_of(dir / "error.json") ==
        R"({"message":{"message":"c10::Error: \"x\"","extraInfo":{"py_callstack":)"
        R"("in forward\nc10::Error: \"x\"","timestamp":"1900000000"}}})");
}

TEST_CASE("an error file that is there is not replaced", "[records]") {
  const TemporaryDir dir;
  std::ofstream(dir / "error.json") << "first";
  CHECK_FALSE(write_error_file(dir / "error.json", {"later", "", 0}));
  CHECK(text_of(dir / "error.json") == "first");
  CHECK_FALSE(write_error_file(dir / "no/such/folder", {"x", "", 0}));
}

}  // namespace
}  // namespace ddpscope::test::error_file_test
