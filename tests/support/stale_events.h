#pragma once

#include <map>
#include <string>

#include "checks/site_source.h"
#include "tests/support/events.h"

namespace ddpscope::test {

/// Stack n is line n of train.cpp, below a frame of LibTorch.
class LinesByStack final : public SiteSource {
 public:
  Site site(StackId stack) override {
    return {.frames = {{.function = "at::Tensor::add_", .line = 7, .library = true},
                       {.function = "main", .file = "/src/train.cpp", .line = stack}}};
  }
};

inline TensorInfo saved_tensor(TensorId id, std::uint64_t storage = 0) {
  return {.id = id,
          .shape = {32, 256},
          .dtype = "float32",
          .device = "cpu",
          .elements = 32 * 256,
          .storage = storage == 0 ? id : storage};
}

/// Saved at line 71 by the module 1001, written at line 88 by `aten::add_`.
inline StaleSavedEvent stale(TensorId id) {
  return {.node = "SigmoidBackward0",
          .tensor = saved_tensor(id),
          .saved_version = 0,
          .found_version = 1,
          .saved = Doing{.step = 1, .module = 1001, .stack = 71},
          .writer = Write{.op = "aten::add_", .by = {.step = 1, .module = 1002, .stack = 88}},
          .writes_since_save = 1,
          .history = 65536};
}

}  // namespace ddpscope::test
