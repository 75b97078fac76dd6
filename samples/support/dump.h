#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace samples {

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

  /// The losses, the model with its gradients, and the generator.
  void add(const torch::nn::Module& model, const std::vector<float>& losses) {
    add("losses", torch::tensor(losses));
    for (const auto& parameter : model.named_parameters()) {
      add(parameter.key(), parameter.value());
      add("gradient", parameter.value().grad());
    }
    for (const auto& buffer : model.named_buffers()) add(buffer.key(), buffer.value());
    add("generator", at::detail::getDefaultCPUGenerator().get_state());
  }

  void close() {
    out_.close();
    if (!out_) throw std::runtime_error(file_.string() + ": could not be written");
  }

 private:
  std::ofstream out_;
  std::filesystem::path file_;
};

/// That of one process among several, in a file of its own.
inline void dump(const std::filesystem::path& file, int rank, const torch::nn::Module& model,
                 const std::vector<float>& losses) {
  Dump one(file.string() + "." + std::to_string(rank));
  one.add(model, losses);
  one.close();
}

}  // namespace samples
