#include "stacks/unwind_rule.h"

#include <link.h>

#include <cstddef>

#include "stacks/address.h"
#include "stacks/byte_reader.h"
#include "stacks/cfi_program.h"

namespace ddpscope {
namespace {

constexpr std::uint8_t kUnsigned4 = 0x03;
constexpr std::uint8_t kTableOfSigned4 = 0x3b;  // relative to the table's own section
constexpr std::uint8_t kPcRelative = 0x10;

/// The bytes of one object's .eh_frame_hdr and of the segment that holds it and .eh_frame.
struct FrameTable {
  const std::uint8_t* header = nullptr;
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;
};

struct Search {
  std::uintptr_t pc = 0;
  std::uint64_t unloads = 0;
  FrameTable table;
};

/// The begin of the segment that holds `address`, and its end through `bytes`.
const std::uint8_t* segment_of(const dl_phdr_info& object, std::uintptr_t address,
                               std::size_t* bytes) noexcept {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || address - begin >= segment.p_memsz) continue;
    *bytes = segment.p_memsz;
    return pointer_to<const std::uint8_t>(begin);
  }
  return nullptr;
}

int visit(dl_phdr_info* object, std::size_t bytes, void* argument) noexcept {
  auto& search = *static_cast<Search*>(argument);
  if (bytes >= offsetof(dl_phdr_info, dlpi_subs) + sizeof(object->dlpi_subs)) {
    search.unloads = object->dlpi_subs;
  }
  std::size_t length = 0;
  if (segment_of(*object, search.pc, &length) == nullptr) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_GNU_EH_FRAME) continue;
    const std::uintptr_t header = object->dlpi_addr + segment.p_vaddr;
    const std::uint8_t* begin = segment_of(*object, header, &length);
    search.table = {pointer_to<const std::uint8_t>(header), begin, begin + length};
  }
  return 1;
}

/// The FDE that may hold `pc`, or null: the last one in the sorted table that begins at or before.
const std::uint8_t* find_fde(const FrameTable& table, std::uintptr_t pc) noexcept {
  ByteReader in(table.header, table.end);
  const auto version = in.read<std::uint8_t>();
  const auto frame_encoding = in.read<std::uint8_t>();
  const auto count_encoding = in.read<std::uint8_t>();
  const auto table_encoding = in.read<std::uint8_t>();
  if (version != 1 || count_encoding != kUnsigned4 || table_encoding != kTableOfSigned4) {
    return nullptr;
  }
  in.skip((frame_encoding & 0x0f) == 0x00 || (frame_encoding & 0x07) == 0x04 ? 8 : 4);
  std::uint32_t left = in.read<std::uint32_t>();
  struct Entry {
    std::int32_t begin;
    std::int32_t fde;
  };
  if (in.failed() || left > std::size_t(in.end() - in.at()) / sizeof(Entry)) return nullptr;
  const auto* entries = reinterpret_cast<const Entry*>(in.at());
  const auto wanted = std::int64_t(pc - reinterpret_cast<std::uintptr_t>(table.header));
  const Entry* first_after = entries;
  while (left > 0) {
    const std::uint32_t half = left / 2;
    const bool before = first_after[half].begin <= wanted;
    first_after += before ? half + 1 : 0;
    left = before ? left - half - 1 : half;
  }
  return first_after == entries ? nullptr : table.header + (first_after - 1)->fde;
}

/// One record of .eh_frame: what follows the length. Empty if it does not lie in the segment.
ByteReader record_at(const FrameTable& table, const std::uint8_t* at) noexcept {
  const ByteReader nothing(at, at);
  if (at < table.begin || at >= table.end) return nothing;
  ByteReader in(at, table.end);
  const auto length = in.read<std::uint32_t>();
  if (in.failed() || length == 0xffffffff || length > std::size_t(in.end() - in.at())) {
    return nothing;
  }
  return {in.at(), in.at() + length};
}

std::uintptr_t read_pointer(ByteReader& in, std::uint8_t encoding, bool relative) noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(in.at());
  const std::uintptr_t base = relative && (encoding & 0x70) == kPcRelative ? here : 0;
  switch (encoding & 0x0f) {
    case 0x02:
      return base + in.read<std::uint16_t>();
    case 0x03:
      return base + in.read<std::uint32_t>();
    case 0x0a:
      return base + std::uintptr_t(std::int64_t(in.read<std::int16_t>()));
    case 0x0b:
      return base + std::uintptr_t(std::int64_t(in.read<std::int32_t>()));
    default:
      return base + in.read<std::uintptr_t>();
  }
}

struct Cie {
  CfiFactors factors;
  std::uint8_t pointer_encoding = 0;
  bool has_augmentation = false;
  bool of_signal = false;
  ByteReader instructions{nullptr, nullptr};
};

bool read_cie(ByteReader in, Cie* cie) noexcept {
  if (in.read<std::uint32_t>() != 0) return false;
  const auto version = in.read<std::uint8_t>();
  const char* augmentation = in.text();
  cie->factors.code = in.uleb();
  cie->factors.data = in.sleb();
  const std::uint64_t return_register = version == 1 ? in.read<std::uint8_t>() : in.uleb();
  if (in.failed() || (version != 1 && version != 3) || return_register != 16) return false;
  cie->has_augmentation = *augmentation == 'z';
  if (!cie->has_augmentation) {
    cie->instructions = in;
    return *augmentation == '\0';
  }
  const std::uint64_t bytes = in.uleb();
  ByteReader data(in.at(), in.end());
  in.skip(bytes);
  for (++augmentation; *augmentation != '\0'; ++augmentation) {
    if (*augmentation == 'R') cie->pointer_encoding = data.read<std::uint8_t>();
    if (*augmentation == 'L') data.skip(1);
    if (*augmentation == 'P') read_pointer(data, data.read<std::uint8_t>(), false);
    if (*augmentation == 'S') cie->of_signal = true;
  }
  cie->instructions = in;
  return !in.failed() && !data.failed();
}

UnwindRule rule_of(const FrameTable& table, std::uintptr_t wanted) noexcept {
  const std::uint8_t* at = find_fde(table, wanted);
  if (at == nullptr) return {};
  ByteReader fde = record_at(table, at);
  const std::uint8_t* cie_field = fde.at();
  const auto to_cie = fde.read<std::uint32_t>();
  Cie cie;
  if (to_cie == 0 || !read_cie(record_at(table, cie_field - to_cie), &cie)) return {};
  const std::uintptr_t begin = read_pointer(fde, cie.pointer_encoding, true);
  const std::uintptr_t length = read_pointer(fde, cie.pointer_encoding, false);
  if (cie.has_augmentation) fde.skip(fde.uleb());
  if (fde.failed() || wanted - begin >= length || cie.of_signal) return {};
  CfiProgram program(cie.factors, begin, wanted);
  program.run_common(cie.instructions);
  program.run(fde);
  return program.rule();
}

}  // namespace

UnwindRule read_unwind_rule(std::uintptr_t pc, std::uint64_t* unloads) noexcept {
  Search search{.pc = pc - 1};
  ::dl_iterate_phdr(visit, &search);
  *unloads = search.unloads;
  return search.table.begin == nullptr ? UnwindRule{} : rule_of(search.table, pc - 1);
}

}  // namespace ddpscope
