#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <vector>

#include "samples/digits/optimizers.h"
#include "samples/support/dump.h"

namespace digits {

inline void add_momentum(samples::Dump& dump, const Optimizers& optimizers) {
  for (const auto& optimizer : optimizers) {
    for (const auto& group : optimizer->param_groups()) {
      for (const auto& parameter : group.params()) {
        const auto found = optimizer->state().find(parameter.unsafeGetTensorImpl());
        if (found == optimizer->state().end()) continue;
        const auto& state = static_cast<torch::optim::SGDParamState&>(*found->second);
        dump.add("momentum", state.momentum_buffer());
      }
    }
  }
}

inline void write_dump(const std::filesystem::path& file, const Net& net,
                       const Optimizers& optimizers, const std::vector<float>& losses) {
  samples::Dump dump(file);
  dump.add(*net, losses);
  add_momentum(dump, optimizers);
  dump.close();
}

}  // namespace digits
