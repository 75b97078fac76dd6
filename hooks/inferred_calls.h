#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "hooks/batch_watch.h"
#include "hooks/hooked_call.h"

namespace ddpscope {

/// Whether operators that read a parameter of a hooked module count as calls of it. While it is on,
/// each operator that reads several tensors looks at them.
void infer_calls(bool on) noexcept;

/// The defined tensors that an operator takes or gives, in order. They are not kept alive.
class OperatorTensors {
 public:
  void add(const at::Tensor& tensor);
  void add(const std::optional<at::Tensor>& tensor) {
    if (tensor.has_value()) add(*tensor);
  }
  void add(at::TensorList list);
  void add(const at::ITensorListRef& list);
  void add(const c10::List<std::optional<at::Tensor>>& list);
  void add(const std::vector<at::Tensor>& list) { add(at::TensorList(list)); }
  template <class... T>
  void add(const std::tuple<T...>& values) {
    std::apply([this](const auto&... value) { (add(value), ...); }, values);
  }
  template <class T>
  void add(const T&) {}  // sizes and flags

  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }
  std::size_t size() const noexcept { return all_.size(); }

 private:
  c10::SmallVector<c10::TensorImpl*, 8> all_;
};

/// The call of a hooked module that an operator stands for, if it stands for one.
class InferredCall {
 public:
  static bool are_wanted() noexcept { return wanted_.load(std::memory_order_relaxed); }

  /// The hooked module of which one of these tensors is a parameter; null if there is none, or if
  /// they are no inputs of a forward.
  static const torch::nn::Module* module_read_by(const OperatorTensors& inputs);

  /// Each runs callbacks of the program, and throws what they throw.
  InferredCall(const torch::nn::Module* module, const char* op, const OperatorTensors& inputs);
  InferredCall(const char* op, const OperatorTensors& inputs)
      : InferredCall(module_read_by(inputs), op, inputs) {}
  void end(const OperatorTensors& outputs);
  explicit operator bool() const noexcept { return call_ != nullptr; }

 private:
  friend void infer_calls(bool on) noexcept;
  static constinit std::atomic<bool> wanted_;
  std::unique_ptr<HookedCall> call_;
};

/// Runs an operator, as the call of a module where it stands for one.
template <class Run, class... Arguments>
auto run_operator(const char* op, const Run& run, const Arguments&... arguments) {
  const bool for_batch = BatchWatch::is_awaited();
  if (!for_batch && !InferredCall::are_wanted()) return run();
  OperatorTensors inputs;
  (inputs.add(arguments), ...);
  if (for_batch) BatchWatch::see(inputs);
  if (!InferredCall::are_wanted()) return run();
  InferredCall call(op, inputs);
  auto result = run();
  if (call) {
    OperatorTensors outputs;
    outputs.add(result);
    call.end(outputs);
  }
  return result;
}

}  // namespace ddpscope
