#pragma once

#include <elfutils/libdw.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "stacks/symbol_source.h"

namespace ddpscope {

/// The functions of a compilation unit, all of which is read once.
class UnitNames {
 public:
  explicit UnitNames(const Dwarf_Die& unit);
  /// Those at an address, from the innermost inlined one to the one that holds them all.
  Names at(Dwarf_Addr address);

 private:
  struct Function {
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    void* entry = nullptr;  ///< of the debug information
  };
  void add_functions(Dwarf_Die* parent);
  const std::string& name(Dwarf_Die* die);

  Dwarf_Die unit_;
  std::vector<Function> functions_;  ///< by address
  std::unordered_map<const void*, std::string> names_;
};

}  // namespace ddpscope
