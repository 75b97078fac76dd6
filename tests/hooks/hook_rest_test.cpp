#include "hooks/hook_rest.h"

#include <vector>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {
/// A slot of a gate, what it may hold, and who is asked to rest.
struct Gate {
  int hook = 0;
  int original = 0;
  int outer = 0;
  void* slot = &hook;
  HookedSlot hooked() { return {.slot = &slot, .hook = &hook, .at_rest = &original}; }
};
}  // namespace

TEST_CASE("A hook at rest is out of its slot until it wakes") {
  Gate gate;
  HookGroup group;
  group.add(gate.hooked());
  CHECK(gate.slot == &gate.hook);
  for (int twice = 0; twice < 2; ++twice) {
    group.rest();
    CHECK(gate.slot == &gate.original);
  }
  for (int twice = 0; twice < 2; ++twice) {
    group.wake();
    CHECK(gate.slot == &gate.hook);
  }
}

TEST_CASE("A hook before which another one was put stays in the gate") {
  Gate gate;
  HookGroup group;
  group.add(gate.hooked());
  gate.slot = &gate.outer;
  group.rest();
  CHECK(gate.slot == &gate.outer);
  group.wake();
  CHECK(gate.slot == &gate.outer);
}

TEST_CASE("A hook that joins again takes no further place") {
  HookGroup group;
  std::vector<Gate> gates(64);
  for (Gate& gate : gates) {
    gate.slot = &gate.hook;
    group.add(gate.hooked());
    group.add(gate.hooked());
  }
  group.rest();
  CHECK(gates[63].slot == &gates[63].original);
}

TEST_CASE("What the gate does not stand before, and one hook too many, are left alone") {
  Gate missing;
  HookGroup group;
  group.add({.slot = nullptr, .hook = &missing.hook, .at_rest = &missing.original});
  group.add({.slot = &missing.slot, .hook = &missing.hook, .at_rest = nullptr});
  std::vector<Gate> gates(70);
  for (Gate& gate : gates) {
    gate.slot = &gate.hook;
    group.add(gate.hooked());
  }
  group.rest();
  CHECK(missing.slot == &missing.hook);
  CHECK(gates[0].slot == &gates[0].original);
  CHECK(gates[63].slot == &gates[63].original);
  CHECK(gates[64].slot == &gates[64].hook);
  group.wake();
  CHECK(gates[0].slot == &gates[0].hook);
}

}  // namespace ddpscope
