#include "checks/nonfinite_fixes.h"

#include "tests/support/catch.h"

namespace ddpscope::test::nonfinite_fixes_test {

TEST_CASE("Each operator that makes NaN has a fix of its own", "[check]") {
  CHECK(fix_of_nonfinite("aten::std").starts_with("unbiased=false"));
  CHECK(fix_of_nonfinite("aten::div_").starts_with("add an epsilon"));
  CHECK(fix_of_nonfinite("aten::log") == "clamp its input above 0 before it");
  CHECK(fix_of_nonfinite("aten::logsumexp").starts_with("look at the batch"));
  CHECK(fix_of_nonfinite("").starts_with("look at the batch"));
}

}  // namespace ddpscope::test::nonfinite_fixes_test
