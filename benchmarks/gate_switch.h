#pragma once

#include <dlfcn.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "interpose/gate.h"

namespace benchmarks {

/// Takes hooks out of the gate and puts them back, between two steps: then calls go straight to
/// LibTorch, as in a process that is not watched.
class GateSwitch {
 public:
  /// `names`: the file with a function of the gate per line. Those with `part` in their name are
  /// switched.
  explicit GateSwitch(const char* names, const std::string& part = "") {
    void* const libtorch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    std::ifstream lines(names);
    for (std::string name; std::getline(lines, name);) {
      if (name.find(part) == std::string::npos) continue;
      void** const slot = ddpscope_gate_slot(name.c_str());
      void* const original = dlsym(libtorch, name.c_str());
      if (slot != nullptr && original != nullptr) slots_.push_back({slot, original, *slot});
    }
    if (slots_.empty()) throw std::runtime_error(std::string("no names of the gate in ") + names);
  }

  void turn_on() {
    if (is_on_) return;
    for (const Slot& at : slots_) *at.slot = at.target;
    is_on_ = true;
  }
  void turn_off() {
    if (!is_on_) return;
    for (Slot& at : slots_) {
      at.target = *at.slot;
      *at.slot = at.original;
    }
    is_on_ = false;
  }

 private:
  struct Slot {
    void** slot;
    void* original;  // LibTorch's own
    void* target;    // what it held when it was turned off
  };
  std::vector<Slot> slots_;
  bool is_on_ = true;
};

}  // namespace benchmarks
