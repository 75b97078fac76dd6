#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "samples/digits/optimizers.h"

namespace digits {

/// Writes every number that training produced, byte by byte, so that two runs can be compared.
class Dump {
 public:
  explicit Dump(const std::filesystem::path& file) : out_(file, std::ios::binary), file_(file) {}

  void add(const std::string& name, const torch::Tensor& tensor) {
    out_ << name << '\n';
    if (!tensor.defined()) return;
    const torch::Tensor flat = tensor.detach().contiguous();
    out_.write(static_cast<const char*>(flat.const_data_ptr()),
               static_cast<std::streamsize>(flat.nbytes()));
  }

  void add(const Optimizers& optimizers) {
    for (const auto& optimizer : optimizers) {
      for (const auto& group : optimizer->param_groups()) {
        for (const auto& parameter : group.params()) {
          const auto found = optimizer->state().find(parameter.unsafeGetTensorImpl());
          if (found == optimizer->state().end()) continue;
          const auto& state = static_cast<torch::optim::SGDParamState&>(*found->second);
          add("momentum", state.momentum_buffer());
        }
      }
    }
  }

  void close() {
    out_.close();
    if (!out_) throw std::runtime_error(file_.string() + ": could not be written");
  }

 private:
  std::ofstream out_;
  std::filesystem::path file_;
};

inline void write_dump(const std::filesystem::path& file, const Net& net,
                       const Optimizers& optimizers, const std::vector<float>& losses) {
  Dump dump(file);
  dump.add("losses", torch::tensor(losses));
  for (const auto& parameter : net->named_parameters()) {
    dump.add(parameter.key(), parameter.value());
    dump.add("gradient", parameter.value().grad());
  }
  for (const auto& buffer : net->named_buffers()) dump.add(buffer.key(), buffer.value());
  dump.add(optimizers);
  dump.add("generator", at::detail::getDefaultCPUGenerator().get_state());
  dump.close();
}

}  // namespace digits
