#include "plugin/model_record.h"

#include "tests/support/catch.h"

namespace ddpscope::test::model_record_test {
namespace {
RegisteredTensor tensor(const std::string& module, const std::string& name, std::int64_t elements,
                        bool trains = true) {
  static TensorId next = 0;
  RegisteredTensor one{.module_path = module, .name = name};
  one.tensor.id = ++next;
  one.tensor.elements = elements;
  one.tensor.requires_grad = trains;
  return one;
}
}  // namespace

TEST_CASE("a model's record names its modules with what each holds itself", "[model_record]") {
  TreeEvent tree{.modules = {{.path = "", .type = "Net"},
                             {.path = "body", .type = "Body"},
                             {.path = "body.fc", .type = "Linear"}}};
  tree.tensors = {tensor("body.fc", "weight", 12), tensor("body.fc", "bias", 3, false),
                  tensor("", "gain", 1)};
  tree.tensors.push_back(tensor("body", "mask", 64));
  tree.tensors.back().is_buffer = true;
  const std::vector<ModuleRecord> modules = module_records(tree);
  REQUIRE(modules.size() == 3);
  CHECK(modules[0].class_name == "Net");
  CHECK(modules[0].parameters == 1);
  CHECK(modules[1].path == "body");
  CHECK(modules[1].parameters == 0);
  CHECK(modules[2].parameters == 2);
  CHECK(modules[2].trainable == 1);
  CHECK(modules[2].elements == 15);
}

TEST_CASE("a model of very many modules names the first of them", "[model_record]") {
  TreeEvent tree;
  for (int i = 0; i < 5000; ++i) tree.modules.push_back({.path = std::to_string(i)});
  tree.tensors = {tensor("4999", "weight", 12)};
  CHECK(module_records(tree).size() == kNamedModules);
  CHECK(model_record(tree).modules == 5000);
}

}  // namespace ddpscope::test::model_record_test
