#pragma once

#include <string>

namespace ddpscope {

/// The exception that ends the process.
struct UncaughtException {
  std::string type;
  std::string text;  ///< without the stack that LibTorch adds
};

/// Registers what happens at exit, at `std::terminate`, at a signal that ends the process and after
/// a fork. Once, from the first attach: by then LibTorch's own objects exist, so our handler runs
/// before they are destroyed.
void watch_process_life();

}  // namespace ddpscope
