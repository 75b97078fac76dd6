#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "stacks/debug_link.h"
#include "stacks/dwarf_names.h"
#include "stacks/frame_names.h"
#include "stacks/symbol_source.h"

namespace ddpscope {
namespace {

bool late(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

/// libdw's own search asks servers of debug information; this one reads local files only.
int find_debug_file(Dwfl_Module* module, void** data, const char* name, Dwarf_Addr base,
                    const char* file, const char* link, GElf_Word crc, char** found) {
  const int by_id = dwfl_build_id_find_debuginfo(module, data, name, base, file, link, crc, found);
  if (by_id >= 0 || file == nullptr || link == nullptr) return by_id;
  for (const std::string& path : debug_link_candidates(file, link)) {
    if (file_crc(path) != crc) continue;
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) continue;
    *found = ::strdup(path.c_str());
    return descriptor;
  }
  return -1;
}

int find_nothing(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                 char**) {
  return -1;
}

Dwfl_Callbacks callbacks_of(Dwfl_Callbacks callbacks) {
  callbacks.section_address = dwfl_offline_section_address;
  return callbacks;
}

/// One file, kept open.
class DwarfFile {
 public:
  DwarfFile(const std::string& path, const Dwfl_Callbacks* callbacks)
      : session_(dwfl_begin(callbacks), dwfl_end) {
    if (session_ == nullptr) return;
    dwfl_report_begin(session_.get());
    module_ = dwfl_report_offline(session_.get(), path.c_str(), path.c_str(), -1);
    dwfl_report_end(session_.get(), nullptr, nullptr);
    if (module_ != nullptr && dwfl_module_getelf(module_, &bias_) == nullptr) module_ = nullptr;
  }

  bool find(std::span<const std::uint64_t> offsets, Deadline deadline, std::vector<Names>* names) {
    if (module_ == nullptr) return true;
    if (!units_read_ && !read_units(deadline)) return false;
    std::vector<std::size_t> without;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      if (late(deadline)) return false;
      (*names)[i] = in_units(offsets[i] + bias_);
      if ((*names)[i].empty() || (*names)[i].back().function.empty()) without.push_back(i);
    }
    return without.empty() || from_symbols(offsets, without, deadline, names);
  }

 private:
  struct Range {
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    Dwarf_Die unit{};
    Dwarf_Addr bias = 0;
  };

  /// .debug_aranges would be faster, but not every compiler writes it.
  bool read_units(Deadline deadline) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = nullptr;
    while ((unit = dwfl_module_nextcu(module_, unit, &bias)) != nullptr) {
      if (late(deadline)) {
        ranges_.clear();
        return false;
      }
      Dwarf_Addr base = 0;
      Range range{.unit = *unit, .bias = bias};
      std::ptrdiff_t at = 0;
      while ((at = dwarf_ranges(unit, at, &base, &range.begin, &range.end)) > 0) {
        if (range.begin == 0) continue;  // what the linker left out
        Range moved = range;
        moved.begin += bias;
        moved.end += bias;
        ranges_.push_back(moved);
      }
    }
    std::ranges::sort(ranges_, {}, &Range::begin);
    units_read_ = true;
    return true;
  }

  Names in_units(Dwarf_Addr address) {
    auto range = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
    if (range == ranges_.begin() || address >= (--range)->end) return {};
    Dwarf_Die unit = range->unit;
    Dwarf_Die whole{};
    Dwarf_Die split{};
    std::uint8_t kind = 0;
    if (dwarf_cu_info(unit.cu, nullptr, &kind, &whole, &split, nullptr, nullptr, nullptr) == 0 &&
        kind == DW_UT_skeleton && dwarf_tag(&split) != DW_TAG_invalid) {
      unit = split;
    }
    const auto known = units_.try_emplace(unit.cu, unit).first;
    return known->second.at(address - range->bias);
  }

  /// One pass over the symbols for all of them: a library has hundreds of thousands.
  bool from_symbols(std::span<const std::uint64_t> offsets, std::vector<std::size_t> wanted,
                    Deadline deadline, std::vector<Names>* names) {
    std::ranges::sort(wanted, {}, [&](std::size_t i) { return offsets[i]; });
    const int count = dwfl_module_getsymtab(module_);
    for (int i = 1; i < count; ++i) {
      if (i % 65536 == 0 && late(deadline)) return false;
      GElf_Sym symbol;
      GElf_Addr begin = 0;
      GElf_Word section = 0;
      const char* name =
          dwfl_module_getsym_info(module_, i, &symbol, &begin, &section, nullptr, nullptr);
      const int type = GELF_ST_TYPE(symbol.st_info);
      if (name == nullptr || section == SHN_UNDEF) continue;
      if (type != STT_FUNC && type != STT_GNU_IFUNC) continue;
      auto at = std::ranges::lower_bound(wanted, begin - bias_, {},
                                         [&](std::size_t each) { return offsets[each]; });
      for (; at != wanted.end() && offsets[*at] + bias_ - begin < symbol.st_size; ++at) {
        Names& found = (*names)[*at];
        if (found.empty()) found.emplace_back();
        if (found.back().function.empty()) found.back().function = demangle(name);
      }
    }
    return true;
  }

  std::unique_ptr<Dwfl, void (*)(Dwfl*)> session_;
  Dwfl_Module* module_ = nullptr;
  Dwarf_Addr bias_ = 0;
  std::vector<Range> ranges_;
  std::map<const void*, UnitNames> units_;
  bool units_read_ = false;
};

class DwarfSource : public SymbolSource {
 public:
  explicit DwarfSource(DebugFiles debug_files)
      : callbacks_(
            callbacks_of({.find_elf = nullptr,
                          .find_debuginfo = debug_files == DebugFiles::kSystem ? find_debug_file
                                                                               : find_nothing})) {}

  FoundNames find(const std::string& file, std::span<const std::uint64_t> offsets,
                  Deadline deadline) override {
    FoundNames found{.of = std::vector<Names>(offsets.size())};
    found.in_time = !late(deadline);
    if (!found.in_time) return found;
    auto& opened = files_[file];
    if (opened == nullptr) opened = std::make_unique<DwarfFile>(file, &callbacks_);
    found.in_time = opened->find(offsets, deadline, &found.of);
    return found;
  }

 private:
  Dwfl_Callbacks callbacks_;
  std::map<std::string, std::unique_ptr<DwarfFile>> files_;
};

}  // namespace

std::unique_ptr<SymbolSource> make_dwarf_source(DebugFiles debug_files) {
  return std::make_unique<DwarfSource>(debug_files);
}

}  // namespace ddpscope
