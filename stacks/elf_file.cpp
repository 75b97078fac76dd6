#include "stacks/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "stacks/address.h"

namespace ddpscope {
namespace {

/// Looks through a note section; empty if the build id is not in it.
std::string build_id_in(std::span<const std::byte> notes) {
  Elf64_Nhdr header{};
  const auto padded = [](std::uint64_t size) { return (size + 3) & ~std::uint64_t{3}; };
  while (notes.size() >= sizeof(header)) {
    std::memcpy(&header, notes.data(), sizeof(header));
    const std::uint64_t name = padded(header.n_namesz);
    const std::uint64_t size = sizeof(header) + name + padded(header.n_descsz);
    if (size > notes.size()) return {};
    const std::byte* text = notes.data() + sizeof(header);
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
        std::memcmp(text, "GNU", 4) == 0) {
      std::string digits;
      for (std::uint32_t i = 0; i < header.n_descsz; ++i) {
        digits += fmt::format("{:02x}", std::to_integer<int>(text[name + i]));
      }
      return digits;
    }
    notes = notes.subspan(size);
  }
  return {};
}

template <typename T>
T read_at(std::span<const std::byte> bytes, std::uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

struct ElfFile::Section {
  std::uint32_t type = 0;
  std::uint32_t link = 0;
  std::span<const std::byte> data;
};

ElfFile::ElfFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return;
  struct stat status {};
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size > off_t(sizeof(Elf64_Ehdr))) {
    const auto size = std::size_t(status.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data != MAP_FAILED) all_ = {static_cast<const std::byte*>(data), size};
  }
  ::close(file);
  const bool is_elf = !all_.empty() && std::memcmp(all_.data(), ELFMAG, SELFMAG) == 0 &&
                      all_[EI_CLASS] == std::byte{ELFCLASS64};
  if (!is_elf && !all_.empty()) {
    ::munmap(const_cast<std::byte*>(all_.data()), all_.size());
    all_ = {};
  }
}

ElfFile::~ElfFile() {
  if (!all_.empty()) ::munmap(const_cast<std::byte*>(all_.data()), all_.size());
}

std::span<const std::byte> ElfFile::bytes(std::uint64_t at, std::uint64_t count) const {
  if (at > all_.size() || count > all_.size() - at) return {};
  return all_.subspan(at, count);
}

std::vector<ElfFile::Section> ElfFile::sections() const {
  std::vector<Section> result;
  if (all_.empty()) return result;
  const auto header = read_at<Elf64_Ehdr>(all_, 0);
  const auto table = bytes(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (std::size_t i = 0; i * sizeof(Elf64_Shdr) < table.size(); ++i) {
    const auto section = read_at<Elf64_Shdr>(table, i);
    const bool in_file = section.sh_type != SHT_NOBITS;
    result.push_back(
        {section.sh_type, section.sh_link,
         in_file ? bytes(section.sh_offset, section.sh_size) : std::span<const std::byte>{}});
  }
  return result;
}

std::string ElfFile::build_id() const {
  for (const Section& section : sections()) {
    if (section.type != SHT_NOTE) continue;
    if (std::string id = build_id_in(section.data); !id.empty()) return id;
  }
  if (all_.empty()) return {};
  const auto header = read_at<Elf64_Ehdr>(all_, 0);
  const auto table = bytes(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  for (std::size_t i = 0; i * sizeof(Elf64_Phdr) < table.size(); ++i) {
    const auto segment = read_at<Elf64_Phdr>(table, i);
    if (segment.p_type != PT_NOTE) continue;
    std::string id = build_id_in(bytes(segment.p_offset, segment.p_filesz));
    if (!id.empty()) return id;
  }
  return {};
}

bool ElfFile::name_from(const Section& symbols, std::span<const std::uint64_t> offsets,
                        std::vector<std::string>* names) const {
  const auto all = sections();
  if (symbols.link >= all.size()) return false;
  const auto strings = all[symbols.link].data;
  std::vector<std::size_t> order(offsets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return offsets[i]; });
  for (std::size_t i = 0; (i + 1) * sizeof(Elf64_Sym) <= symbols.data.size(); ++i) {
    const auto symbol = read_at<Elf64_Sym>(symbols.data, i);
    const int type = ELF64_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
    if (symbol.st_name >= strings.size()) continue;
    auto at = std::ranges::lower_bound(order, symbol.st_value, {},
                                       [&](std::size_t each) { return offsets[each]; });
    for (; at != order.end() && offsets[*at] - symbol.st_value < symbol.st_size; ++at) {
      const auto* text = reinterpret_cast<const char*>(strings.data()) + symbol.st_name;
      (*names)[*at] = std::string(text, ::strnlen(text, strings.size() - symbol.st_name));
    }
  }
  return true;
}

std::vector<std::string> ElfFile::functions(std::span<const std::uint64_t> offsets) const {
  std::vector<std::string> names(offsets.size());
  for (const std::uint32_t table : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (const Section& section : sections()) {
      if (section.type == table && name_from(section, offsets, &names)) return names;
    }
  }
  return names;
}

std::string loaded_build_id(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = pointer_to<const std::byte>(object.dlpi_addr + segment.p_vaddr);
    if (std::string id = build_id_in({notes, segment.p_memsz}); !id.empty()) return id;
  }
  return {};
}

}  // namespace ddpscope
