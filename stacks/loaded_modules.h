#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddpscope {

/// A file whose code is loaded into this process.
struct LoadedModule {
  std::string name;  ///< its path, for readers
  std::string file;  ///< where its bytes can be read; empty if what lies there is not it
  std::string build_id;
  std::uintptr_t bias = 0;  ///< an address minus this is the address within the file
  struct Segment {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };
  std::vector<Segment> code;
};

class LoadedModules {
 public:
  /// Reads the list again if libraries came or went; true if it did. Takes the loader's lock.
  bool refresh();
  /// Null if the address lies in none.
  const LoadedModule* find(std::uintptr_t address) const;

 private:
  std::uint64_t generation_ = ~std::uint64_t{0};
  std::vector<LoadedModule> modules_;
};

}  // namespace ddpscope
