#pragma once

#include <elfutils/libdw.h>

#include "stacks/symbol_source.h"

namespace ddpscope {

/// The functions at an address of a compilation unit, from the innermost inlined one to the one
/// that holds them all.
Names names_in(Dwarf_Die* unit, Dwarf_Addr address);

}  // namespace ddpscope
