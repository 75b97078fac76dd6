#pragma once

#include <torch/nn/modules/adaptive.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace ddpscope {

/// The tensors among the arguments or in the result of a builtin forward, in order.
class CallTensors {
 public:
  template <class... Values>
  static std::vector<at::Tensor> of(const Values&... values) {
    CallTensors found;
    (found.add(values), ...);
    return std::move(found.list_);
  }

 private:
  void add(const at::Tensor& tensor) { list_.push_back(tensor); }
  void add(const torch::nn::ASMoutput& result) { list_.push_back(result.output); }
  template <class T>
  void add(const std::optional<T>& value) {
    if (value.has_value()) add(*value);
  }
  template <class... T>
  void add(const std::tuple<T...>& values) {
    std::apply([this](const auto&... value) { (add(value), ...); }, values);
  }
  template <class T>
  void add(const T&) {}  // sizes and flags

  std::vector<at::Tensor> list_;
};

}  // namespace ddpscope
