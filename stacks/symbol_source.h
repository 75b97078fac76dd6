#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/finding.h"

namespace ddpscope {

using Deadline = std::chrono::steady_clock::time_point;

/// What is known of one address: its function, file and line, before it the functions that were
/// inlined there, innermost first. Function names are demangled and whole.
using Names = std::vector<Frame>;

struct FoundNames {
  std::vector<Names> of;  ///< one for each offset that was asked for
  bool in_time = true;
};

/// Reads names out of files. No network, no other files than the ones below.
class SymbolSource {
 public:
  virtual ~SymbolSource() = default;
  /// Offsets are addresses as the file itself has them.
  virtual FoundNames find(const std::string& file, std::span<const std::uint64_t> offsets,
                          Deadline deadline) = 0;
};

/// Where the debug information of a stripped file is looked for.
enum class DebugFiles : std::uint8_t {
  kSystem,  ///< also beside it and in /usr/lib/debug, by build id or by the name it holds
  kNone     ///< nowhere: the file itself is all there is
};

/// With libdw; null if it was absent when this was built.
std::unique_ptr<SymbolSource> make_dwarf_source(DebugFiles debug_files);
/// With the program addr2line, which looks for debug files everywhere; where there is none, and
/// for what it does not know, with the file's own table of functions.
std::unique_ptr<SymbolSource> make_addr2line_source();
/// The file's own table of functions: no lines.
std::unique_ptr<SymbolSource> make_elf_source();
/// The first of these that there is and that reads no other files than it may.
std::unique_ptr<SymbolSource> make_best_source(DebugFiles debug_files);

}  // namespace ddpscope
