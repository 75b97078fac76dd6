#pragma once

#include "model/autograd_event.h"

namespace ddpscope {

/// `Doing` in 24 bytes, for the logs, of which each entry is written to memory that is not cached.
struct PackedDoing {
  ModuleId module = 0;
  std::uint32_t optimizer = 0;
  std::uint32_t step = 0;
  std::uint32_t cycle = 0;
  StackId stack = 0;

  PackedDoing() = default;
  PackedDoing(const Doing& doing) noexcept  // NOLINT: the same in fewer bytes
      : module(doing.module),
        optimizer(static_cast<std::uint32_t>(doing.optimizer)),
        step(static_cast<std::uint32_t>(doing.step)),
        cycle(static_cast<std::uint32_t>(doing.cycle)),
        stack(doing.stack) {}
  Doing unpacked() const noexcept {
    return {.step = step, .cycle = cycle, .module = module, .optimizer = optimizer, .stack = stack};
  }
};
static_assert(sizeof(PackedDoing) == 24);

}  // namespace ddpscope
