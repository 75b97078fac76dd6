#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/finding.h"
#include "stacks/loaded_modules.h"
#include "stacks/symbol_source.h"

namespace ddpscope {

/// Turns the return addresses of this process into frames for readers, inlined functions among
/// them. Reads files and may start addr2line: for the worker, never for a training thread. One
/// thread at a time.
class Symbolizer {
 public:
  static constexpr std::chrono::milliseconds kBudget{2000};

  Symbolizer() : Symbolizer(make_best_source(DebugFiles::kSystem)) {}
  explicit Symbolizer(std::unique_ptr<SymbolSource> source) : source_(std::move(source)) {}

  /// kEvicted for no addresses; kUnsymbolized if the time ran out or no frame has a name.
  /// A frame's offset is that of the call, so that addr2line -e module offset says the same.
  Site site(std::string role, std::span<void* const> return_addresses,
            std::chrono::milliseconds budget = kBudget);

 private:
  bool find_missing(std::span<void* const> return_addresses, Deadline deadline);
  bool find_in(const LoadedModule& module, std::span<const std::uintptr_t> calls,
               Deadline deadline);

  std::unique_ptr<SymbolSource> source_;
  LoadedModules modules_;
  std::unordered_map<std::uintptr_t, Names> known_;
};

}  // namespace ddpscope
