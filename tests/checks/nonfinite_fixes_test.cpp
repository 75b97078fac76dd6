#include "checks/nonfinite_fixes.h"

#include "checks/nonfinite_text.h"
#include "tests/support/catch.h"

namespace ddpscope::test::nonfinite_fixes_test {

TEST_CASE("Each operator that makes NaN has a fix of its own", "[check]") {
  CHECK(fix_of_nonfinite("aten::std").starts_with("unbiased=false"));
  CHECK(fix_of_nonfinite("aten::div_").starts_with("add an epsilon"));
  CHECK(fix_of_nonfinite("aten::log") == "clamp its input above 0 before it");
  CHECK(fix_of_nonfinite("aten::logsumexp").starts_with("look at the batch"));
  CHECK(fix_of_nonfinite("").starts_with("look at the batch"));
}

TEST_CASE("A power of what is large is told to be scaled down", "[check]") {
  const auto [dtype, absmax, is_large] = GENERATE(table<std::string, double, bool>(
      {{"float16", 280, true}, {"float16", 100, false}, {"float32", 1e25, true}}));
  NonfiniteOutputEvent power{.op = "aten::pow",
                             .output = {.dtype = dtype},
                             .inputs_known = true,
                             .inputs = {.elements = 4, .absmax = absmax}};
  Finding finding;
  add_operator_fixes(power, nullptr, finding);
  const std::string& first = finding.fixes.at(0).text;
  CHECK(first.starts_with(is_large ? "scale its base down" : "clamp its base above 0"));
  CHECK((finding.fixes.size() == 2) == (dtype == "float16"));
}

}  // namespace ddpscope::test::nonfinite_fixes_test
