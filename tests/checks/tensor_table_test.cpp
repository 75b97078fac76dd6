#include "checks/tensor_table.h"

#include "tests/support/catch.h"

namespace ddpscope::test::tensor_table_test {
namespace {
/// A parameter of one model, which lives in storage 10.
struct Table {
  Table() { tensors.add_registration(tensors.introduce({.id = 1, .storage = 10}, 1), {1}, 1); }
  TensorTable tensors;
};
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

}  // namespace ddpscope::test::tensor_table_test
