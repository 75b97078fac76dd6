#include "checks/declared_parts.h"

#include "tests/support/catch.h"

namespace ddpscope::test::declared_parts_test {
namespace {
const std::vector<ModuleInfo> kModules = {{.path = ""}, {.path = "head"}};
const std::vector<RegisteredTensor> kTensors = {{.module_path = "head", .name = "weight"},
                                                {.module_path = "", .name = "scale"}};

std::vector<std::string> idle_globs(const DeclaredParts& declarations) {
  std::vector<std::string> globs;
  for (const DeclarationEvent& idle : declarations.without_effect()) {
    globs.push_back(idle.path_glob);
  }
  return globs;
}
}  // namespace

TEST_CASE("A declaration is idle as long as no model has what it names", "[unit]") {
  DeclaredParts declarations;
  for (const char* glob : {"head.*", "h*", "scale", "*", "tail"}) {
    declarations.add({.path_glob = glob, .kind = "sharded"});
  }
  declarations.add({.model = 2, .path_glob = "head", .kind = "sharded"});
  declarations.add({.model = 2, .path_glob = "none", .kind = "averaged"});
  CHECK(idle_globs(declarations).empty());  // no model is known
  declarations.see(1, kModules, kTensors);
  CHECK(idle_globs(declarations) == std::vector<std::string>{"tail", "head"});
  declarations.see(2, {{.path = "tail"}}, {});
  CHECK(idle_globs(declarations) == std::vector<std::string>{"head"});
}

TEST_CASE("A declaration covers a path of its models and what lies below", "[unit]") {
  DeclaredParts declarations;
  declarations.add({.model = 1, .path_glob = "head", .kind = "sharded"});
  declarations.add({.path_glob = "body", .kind = "intended"});
  CHECK(declarations.cover(1, "head.weight", "sharded"));
  CHECK_FALSE(declarations.cover(1, "head.weight", "rank_local"));
  CHECK_FALSE(declarations.cover(2, "head.weight", "sharded"));
  CHECK(declarations.cover(2, "body", "rank_local"));
}

}  // namespace ddpscope::test::declared_parts_test
