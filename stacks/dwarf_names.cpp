#include "stacks/dwarf_names.h"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ranges>

#include "stacks/frame_names.h"

namespace ddpscope {
namespace {

struct FreeScopes {
  void operator()(Dwarf_Die* scopes) const { std::free(scopes); }
};
using Scopes = std::unique_ptr<Dwarf_Die, FreeScopes>;

std::string plain_name(Dwarf_Die* die) {
  const char* name = dwarf_diename(die);
  const std::string text = name == nullptr ? "" : name;
  const int tag = dwarf_tag(die);
  const bool is_class = tag == DW_TAG_class_type || tag == DW_TAG_structure_type;
  if (text.starts_with("<lambda") || (text.empty() && is_class)) return "{lambda}";
  return text.empty() && tag == DW_TAG_namespace ? "(anonymous namespace)" : text;
}

/// The declaration that a function's instance points to, if it does.
void follow(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute held;
  Dwarf_Die origin;
  if (dwarf_formref_die(dwarf_attr(die, attribute, &held), &origin) != nullptr) *die = origin;
}

/// With the names of what it stands in.
std::string qualified_name(Dwarf_Die* die) {
  Dwarf_Die declared = *die;
  follow(&declared, DW_AT_abstract_origin);
  follow(&declared, DW_AT_specification);
  std::string name = plain_name(&declared);
  Dwarf_Die* found = nullptr;
  const int count = dwarf_getscopes_die(&declared, &found);
  const Scopes scopes(found);
  for (int i = 1; i < count && !name.empty(); ++i) {
    const int tag = dwarf_tag(found + i);
    const bool named = tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
                       tag == DW_TAG_structure_type || tag == DW_TAG_subprogram;
    const std::string outer = named ? plain_name(found + i) : std::string();
    if (!outer.empty()) name.insert(0, outer + "::");
  }
  return name;
}

std::string name_of(Dwarf_Die* die) {
  for (const unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute held;
    const char* name = dwarf_formstring(dwarf_attr_integrate(die, attribute, &held));
    if (name != nullptr) return demangle(name);
  }
  return qualified_name(die);
}

/// Paths stand as they were given to the compiler, in the folder where it ran.
std::string path_of(Dwarf_Die* unit, const char* file) {
  if (file == nullptr) return {};
  Dwarf_Attribute held;
  const char* folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &held));
  const auto path = std::filesystem::path(folder == nullptr ? "" : folder) / file;
  return path.lexically_normal().string();
}

struct Place {
  std::string file;
  std::int64_t line = 0;
};

Place place_of(Dwarf_Die* unit, Dwarf_Addr address) {
  Dwarf_Line* line = dwarf_getsrc_die(unit, address);
  int number = 0;
  if (line == nullptr || dwarf_lineno(line, &number) != 0 || number <= 0) return {};
  return {path_of(unit, dwarf_linesrc(line, nullptr, nullptr)), number};
}

Place call_of(Dwarf_Die* unit, Dwarf_Die* inlined) {
  const auto number = [&](unsigned name) {
    Dwarf_Attribute held;
    Dwarf_Word value = 0;
    const bool known = dwarf_formudata(dwarf_attr(inlined, name, &held), &value) == 0;
    return known ? value : 0;
  };
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  const Dwarf_Word line = number(DW_AT_call_line);
  if (line == 0 || dwarf_getsrcfiles(unit, &files, &count) != 0) return {};
  return {path_of(unit, dwarf_filesrc(files, number(DW_AT_call_file), nullptr, nullptr)),
          std::int64_t(line)};
}

/// A function and what in it holds the address, as deep as they go.
std::vector<Dwarf_Die> path_in(Dwarf_Die function, Dwarf_Addr address) {
  std::vector<Dwarf_Die> path = {function};
  Dwarf_Die child;
  bool has_child = dwarf_child(&function, &child) == 0;
  while (has_child) {
    if (dwarf_haspc(&child, address) == 1) {
      path.push_back(child);
      has_child = dwarf_child(&path.back(), &child) == 0;
    } else {
      has_child = dwarf_siblingof(&child, &child) == 0;
    }
  }
  return path;
}

bool may_hold_functions(int tag) {
  return tag == DW_TAG_subprogram || tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
         tag == DW_TAG_structure_type || tag == DW_TAG_lexical_block;
}
}  // namespace

UnitNames::UnitNames(const Dwarf_Die& unit) : unit_(unit) {
  add_functions(&unit_);
  std::ranges::sort(functions_, {}, &Function::begin);
}

// A function stands in what declares it, which need not hold the address: a lambda's body stands in
// its class, in the function that makes it. So all of the unit is walked, once: one that reads
// torch/torch.h has a million entries.
void UnitNames::add_functions(Dwarf_Die* parent) {
  Dwarf_Die child;
  if (dwarf_child(parent, &child) != 0) return;
  do {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subprogram) {
      Dwarf_Addr base = 0;
      Function function{.entry = child.addr};
      std::ptrdiff_t at = 0;
      while ((at = dwarf_ranges(&child, at, &base, &function.begin, &function.end)) > 0) {
        functions_.push_back(function);
      }
    }
    if (may_hold_functions(tag)) add_functions(&child);
  } while (dwarf_siblingof(&child, &child) == 0);
}

const std::string& UnitNames::name(Dwarf_Die* die) {
  const auto [known, is_new] = names_.try_emplace(die->addr);
  if (is_new) known->second = name_of(die);
  return known->second;
}

Names UnitNames::at(Dwarf_Addr address) {
  Names names;
  auto found = std::ranges::upper_bound(functions_, address, {}, &Function::begin);
  if (found == functions_.begin() || address >= (--found)->end) return names;
  std::vector<Dwarf_Die> path = path_in({.addr = found->entry, .cu = unit_.cu}, address);
  Place place = place_of(&unit_, address);
  for (Dwarf_Die& die : path | std::views::reverse) {
    const int tag = dwarf_tag(&die);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
    names.push_back({.function = name(&die), .file = place.file, .line = place.line});
    if (tag == DW_TAG_subprogram) break;
    place = call_of(&unit_, &die);
  }
  return names;
}

}  // namespace ddpscope
