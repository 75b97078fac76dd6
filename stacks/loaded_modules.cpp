#include "stacks/loaded_modules.h"

#include <link.h>

#include <filesystem>

#include "stacks/elf_file.h"

namespace ddpscope {
namespace {

constexpr const char* kProgram = "/proc/self/exe";

int read_generation(dl_phdr_info* object, std::size_t, void* generation) {
  *static_cast<std::uint64_t*>(generation) = object->dlpi_adds + object->dlpi_subs;
  return 1;
}

int read_module(dl_phdr_info* object, std::size_t, void* argument) {
  auto& modules = *static_cast<std::vector<LoadedModule>*>(argument);
  LoadedModule module{.name = object->dlpi_name, .bias = object->dlpi_addr};
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    module.code.push_back({begin, begin + segment.p_memsz});
  }
  module.build_id = loaded_build_id(*object);
  modules.push_back(std::move(module));
  return 0;
}

/// A file that was built anew or replaced while the program runs is another one.
void find_file(LoadedModule* module, bool is_program) {
  std::error_code error;
  if (is_program) module->name = std::filesystem::read_symlink(kProgram, error).string();
  const auto is_it = [&](const char* path) { return ElfFile(path).build_id() == module->build_id; };
  if (std::filesystem::is_regular_file(module->name, error) && is_it(module->name.c_str())) {
    module->file = module->name;
  } else if (is_program && is_it(kProgram)) {
    module->file = kProgram;
  }
}

}  // namespace

bool LoadedModules::refresh() {
  std::uint64_t generation = 0;
  ::dl_iterate_phdr(read_generation, &generation);
  if (generation == generation_) return false;
  generation_ = generation;
  modules_.clear();
  ::dl_iterate_phdr(read_module, &modules_);
  for (std::size_t i = 0; i < modules_.size(); ++i) find_file(&modules_[i], i == 0);
  return true;
}

const LoadedModule* LoadedModules::find(std::uintptr_t address) const {
  for (const auto& module : modules_) {
    for (const auto& segment : module.code) {
      if (address >= segment.begin && address < segment.end) return &module;
    }
  }
  return nullptr;
}

}  // namespace ddpscope
