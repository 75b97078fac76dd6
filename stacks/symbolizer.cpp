#include "stacks/symbolizer.h"

#include <algorithm>
#include <map>

#include "stacks/frame_names.h"
#include "stacks/source_line.h"

namespace ddpscope {
namespace {

std::uintptr_t call_before(const void* return_address) {
  return reinterpret_cast<std::uintptr_t>(return_address) - 1;
}

Frame bare_frame(const LoadedModule* module, std::uintptr_t call) {
  if (module == nullptr) return {.offset = call};
  return {.module = module->name,
          .offset = call - module->bias,
          .build_id = module->build_id,
          .library = is_library(module->name, {}, {})};
}

/// The frames of one address, ready for readers.
Names finish(const LoadedModule* module, std::uintptr_t call, Names names) {
  if (names.empty()) names.emplace_back();
  for (Frame& frame : names) {
    const std::string whole = std::move(frame.function);
    Frame bare = bare_frame(module, call);
    bare.library = is_library(bare.module, frame.file, whole);
    bare.function = short_function(whole);
    bare.file = std::move(frame.file);
    bare.line = frame.line;
    if (!bare.library && module != nullptr) {
      bare.source = source_line(bare.file, bare.line, module->file);
    }
    frame = std::move(bare);
  }
  return names;
}

}  // namespace

Site Symbolizer::site(std::string role, std::span<void* const> return_addresses,
                      std::chrono::milliseconds budget) {
  Site site{.role = std::move(role)};
  if (return_addresses.empty()) site.state = SiteState::kEvicted;
  if (return_addresses.empty()) return site;
  const bool in_time = find_missing(return_addresses, std::chrono::steady_clock::now() + budget);
  for (const void* address : return_addresses) {
    const std::uintptr_t call = call_before(address);
    const LoadedModule* module = modules_.find(call);
    if (module != nullptr && is_own(module->name)) continue;
    const auto known = known_.find(call);
    if (known == known_.end()) {
      site.frames.push_back(bare_frame(module, call));
    } else {
      site.frames.insert(site.frames.end(), known->second.begin(), known->second.end());
    }
  }
  const auto has_name = [](const Frame& frame) { return !frame.function.empty(); };
  const bool named = std::ranges::any_of(site.frames, has_name);
  site.state = in_time && named ? SiteState::kComplete : SiteState::kUnsymbolized;
  return site;
}

bool Symbolizer::find_missing(std::span<void* const> return_addresses, Deadline deadline) {
  if (modules_.refresh()) known_.clear();
  std::map<const LoadedModule*, std::vector<std::uintptr_t>> missing;
  for (const void* address : return_addresses) {
    const std::uintptr_t call = call_before(address);
    const LoadedModule* module = modules_.find(call);
    if (module == nullptr || module->file.empty() || is_own(module->name)) continue;
    if (!known_.contains(call)) missing[module].push_back(call);
  }
  std::vector<const LoadedModule*> order;
  order.reserve(missing.size());
  for (const auto& [module, calls] : missing) order.push_back(module);
  // The user's own code first: its lines are what the time is for.
  std::ranges::stable_sort(
      order, {}, [](const LoadedModule* module) { return is_library(module->name, {}, {}); });
  return std::ranges::all_of(order, [&](const LoadedModule* module) {
    return find_in(*module, missing[module], deadline);
  });
}

bool Symbolizer::find_in(const LoadedModule& module, std::span<const std::uintptr_t> calls,
                         Deadline deadline) {
  std::vector<std::uint64_t> offsets;
  for (const std::uintptr_t call : calls) offsets.push_back(call - module.bias);
  FoundNames found = source_->find(module.file, offsets, deadline);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (found.of[i].empty() && !found.in_time) continue;
    known_[calls[i]] = finish(&module, calls[i], std::move(found.of[i]));
  }
  return found.in_time;
}

}  // namespace ddpscope
