#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct dl_phdr_info;

namespace ddpscope {

/// A 64-bit ELF file, mapped for reading; empty if it is none.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path);
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  ~ElfFile();

  /// In hexadecimal digits, or empty.
  std::string build_id() const;
  /// For each offset the mangled name of the function that holds it, or nothing.
  std::vector<std::string> functions(std::span<const std::uint64_t> offsets) const;

 private:
  struct Section;
  std::vector<Section> sections() const;
  bool name_from(const Section& symbols, std::span<const std::uint64_t> offsets,
                 std::vector<std::string>* names) const;
  std::span<const std::byte> bytes(std::uint64_t at, std::uint64_t count) const;

  std::span<const std::byte> all_;
};

/// Of an object that is loaded, from its own memory.
std::string loaded_build_id(const dl_phdr_info& object);

}  // namespace ddpscope
