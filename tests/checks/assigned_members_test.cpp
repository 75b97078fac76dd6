#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::assigned_members_test {
namespace {
// In the order of their paths: the root, embed, head.
constexpr ModuleId kEmbed = 1001;
constexpr ModuleId kHead = 1002;
}  // namespace

TEST_CASE("module-replaced tells a clone from members that were all assigned", "[check]") {
  Program program("module-replaced");
  program.attach(1, {{.id = 1, .path = "embed.weight"}, {.id = 2, .path = "head.weight"}});
  const bool of_members = GENERATE(false, true);
  program.optimizer(1, of_members ? std::vector<TensorId>{3, 4} : std::vector<TensorId>{1, 2});
  program.leaf(3);
  program.leaf(4);
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::embedding", .inputs = {3, 30}, .outputs = {31}, .module = kEmbed});
    program.op({.name = "aten::mm", .inputs = {31, 4}, .outputs = {32}, .module = kHead});
    program.backward({3, 4});
    program.step(1);
  }
  REQUIRE(!program.findings.empty());
  const std::string& why = program.findings[0].why;
  CHECK(why.starts_with("these are all that the model trains: forward runs another") != of_members);
  CHECK((why.find("an optimizer steps what forward uses") != std::string::npos) == of_members);
}

}  // namespace ddpscope::test::assigned_members_test
