#include "checks/tensor_table.h"

#include "checks/module_modes.h"
#include "checks/run_state.h"
#include "tests/support/catch.h"

namespace ddpscope::test::tensor_table_test {
namespace {
/// A parameter of one model, which lives in storage 10.
struct Table {
  Table() { tensors.add_registration(tensors.introduce({.id = 1, .storage = 10}, 1), {1}, 1); }
  TensorTable tensors;
};

TreeEvent tree(ModelId model) {
  return {
      .model = model,
      .modules = {{.path = "layer"}},
      .tensors = {{.module_path = "layer", .name = "weight", .tensor = {.id = 1, .storage = 10}}}};
}
template <class E>
void tell(RunState& state, E event) {
  if constexpr (std::is_constructible_v<Event, E>) {
    state.apply(event);
  } else {
    state.apply(std::make_unique<E>(std::move(event)));
  }
}
}  // namespace

TEST_CASE("What is registered is found where it moved, and no longer where it was", "[check]") {
  Table table;
  table.tensors.note_storage(table.tensors.get(1, 2), 11);
  CHECK(table.tensors.registered_in(10) == 0);
  CHECK(table.tensors.registered_in(11) == 1);
  table.tensors.remove_registrations(1);
  CHECK(table.tensors.registered_in(11) == 0);
}

TEST_CASE("It stays where it was when nobody knows where it is", "[check]") {
  Table table;
  table.tensors.note_storage(table.tensors.get(1, 2), 0);
  table.tensors.note_gradient_in(0);
  CHECK(table.tensors.registered_in(10) == 1);
}

TEST_CASE("Of two that moved into each other's storage both are found", "[check]") {
  Table table;
  table.tensors.add_registration(table.tensors.introduce({.id = 2, .storage = 11}, 2), {1}, 2);
  table.tensors.note_storage(table.tensors.get(1, 3), 11);
  table.tensors.note_storage(table.tensors.get(2, 4), 10);
  CHECK(table.tensors.registered_in(11) == 1);
  CHECK(table.tensors.registered_in(10) == 2);
}

TEST_CASE("A gradient lies where nothing is registered, until that is seen there", "[check]") {
  Table table;
  table.tensors.note_gradient_in(10);
  CHECK(table.tensors.registered_in(10) == 0);
  table.tensors.note_storage(table.tensors.get(1, 2), 10);
  CHECK(table.tensors.registered_in(10) == 1);
}

TEST_CASE("What is alone in its memory is behind no other tensor", "[check]") {
  Table table;
  TensorInfo tensor{.id = 2, .storage = 10};
  CHECK(table.tensors.registered_in(tensor) == 1);
  tensor.alone = true;
  CHECK(table.tensors.registered_in(tensor) == 0);
}

TEST_CASE("A backward and an optimizer tell where a parameter moved", "[check]") {
  RunState state;
  tell(state, tree(1));
  SECTION("a backward") { tell(state, GradientEvent{.tensor = 1, .storage = 11}); }
  SECTION("an optimizer") {
    tell(state, OptimizerMembersEvent{.optimizer = 1, .groups = {{{.tensor = 1, .storage = 11}}}});
  }
  CHECK(state.tensors().registered_in(10) == 0);
  CHECK(state.tensors().registered_in(11) == 1);
}

TEST_CASE("A gradient in another storage than its leaf tells that a parameter left it", "[check]") {
  RunState state;
  tell(state, tree(1));
  SECTION("in one buffer with it the parameter stays") {
    tell(state, GradientEvent{.tensor = 1, .storage = 10, .gradient_storage = 10});
    CHECK(state.tensors().registered_in(10) == 1);
  }
  SECTION("of another leaf") {
    tell(state, GradientEvent{.tensor = 2, .storage = 12, .gradient_storage = 10});
    CHECK(state.tensors().registered_in(10) == 0);
  }
}

TEST_CASE("The modes of models that are gone are kept no longer", "[check]") {
  ModuleModes modes;
  modes.update(tree(1), {{1, {}}});
  modes.update(tree(2), {{1, {}}, {2, {}}});
  CHECK(modes.find({1, "layer"}) != nullptr);
  modes.update(tree(3), {{2, {}}, {3, {}}});
  CHECK(modes.find({1, "layer"}) == nullptr);
  CHECK(modes.find({2, "layer"}) != nullptr);
}

}  // namespace ddpscope::test::tensor_table_test
