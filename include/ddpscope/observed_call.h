#pragma once

#include <ddpscope/ddpscope.h>
#include <torch/nn/module.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// What `ddpscope::Observed` of ddpscope/hooks.h is made of; not for direct use.
namespace ddpscope {
inline namespace api0 {
namespace detail {

/// The tensors of values in order, also those in tuples, pairs, vectors and optionals.
class TensorsOf {
 public:
  template <class... Values>
  static std::vector<at::Tensor> all(const Values&... values) {
    TensorsOf found;
    (found.add(values), ...);
    return std::move(found.list_);
  }

 private:
  void add(const at::Tensor& tensor) { list_.push_back(tensor); }
  template <class T>
  void add(const std::optional<T>& value) {
    if (value.has_value()) add(*value);
  }
  template <class T>
  void add(const std::vector<T>& values) {
    for (const auto& value : values) add(value);
  }
  void add(const at::TensorList& tensors) {
    for (const at::Tensor& tensor : tensors) add(tensor);
  }
  template <class First, class Second>
  void add(const std::pair<First, Second>& pair) {
    add(pair.first);
    add(pair.second);
  }
  template <class... T>
  void add(const std::tuple<T...>& values) {
    std::apply([this](const auto&... value) { (add(value), ...); }, values);
  }
  template <class T>
  void add(const T&) {}  // holds no tensor

  std::vector<at::Tensor> list_;
};

/// One call of an observed forward.
class DDPSCOPE_API ObservedCall {
 public:
  explicit ObservedCall(torch::nn::Module& module);
  ~ObservedCall();
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;

  bool is_hooked() const noexcept;
  void begin(std::vector<at::Tensor> inputs);
  /// `result` is the one tensor that forward returns, or null: a hook may replace it.
  void end(std::vector<at::Tensor> outputs, at::Tensor* result);

 private:
  void* call_;
};

/// How the library recognizes an observed module.
class DDPSCOPE_API ObservedModule {
 public:
  virtual ~ObservedModule();
  virtual bool returns_one_tensor() const noexcept = 0;
};

template <class Result, class Forward, class... Arguments>
Result observe(torch::nn::Module& module, const Forward& forward, Arguments&&... arguments) {
  ObservedCall call(module);
  if (!call.is_hooked()) return forward(std::forward<Arguments>(arguments)...);
  call.begin(TensorsOf::all(arguments...));
  if constexpr (std::is_void_v<Result>) {
    forward(std::forward<Arguments>(arguments)...);
    call.end({}, nullptr);
  } else {
    Result result = forward(std::forward<Arguments>(arguments)...);
    if constexpr (std::is_same_v<Result, at::Tensor>) {
      call.end({result}, &result);
    } else {
      call.end(TensorsOf::all(result), nullptr);
    }
    return result;
  }
}

/// An overload set or a template: the call decides which one.
template <class Impl, class Method>
class ObservedMethod : public Impl, public ObservedModule {
 public:
  using Impl::Impl;
  template <class... Arguments>
  auto forward(Arguments&&... arguments)
      -> decltype(std::declval<Impl&>().forward(std::forward<Arguments>(arguments)...)) {
    using Result = decltype(std::declval<Impl&>().forward(std::forward<Arguments>(arguments)...));
    const auto forward = [this](auto&&... values) -> Result {
      return this->Impl::forward(std::forward<decltype(values)>(values)...);
    };
    return observe<Result>(*this, forward, std::forward<Arguments>(arguments)...);
  }
  bool returns_one_tensor() const noexcept override { return false; }
};

template <class Impl, class Owner, class Result, class... Arguments>
class ObservedMethod<Impl, Result (Owner::*)(Arguments...)> : public Impl, public ObservedModule {
 public:
  using Impl::Impl;
  Result forward(Arguments... arguments) {
    const auto forward = [this](auto&&... values) -> Result {
      return this->Impl::forward(std::forward<decltype(values)>(values)...);
    };
    return observe<Result>(*this, forward, std::forward<Arguments>(arguments)...);
  }
  bool returns_one_tensor() const noexcept override { return std::is_same_v<Result, at::Tensor>; }
};

template <class Impl, class Owner, class Result, class... Arguments>
class ObservedMethod<Impl, Result (Owner::*)(Arguments...) const> : public Impl,
                                                                    public ObservedModule {
 public:
  using Impl::Impl;
  Result forward(Arguments... arguments) const {
    const auto forward = [this](auto&&... values) -> Result {
      return this->Impl::forward(std::forward<decltype(values)>(values)...);
    };
    // Hooks show a module as const; only its address is used.
    auto& module = const_cast<torch::nn::Module&>(static_cast<const torch::nn::Module&>(*this));
    return observe<Result>(module, forward, std::forward<Arguments>(arguments)...);
  }
  bool returns_one_tensor() const noexcept override { return std::is_same_v<Result, at::Tensor>; }
};

template <class Impl>
decltype(&Impl::forward) forward_of(int);
template <class Impl>
void forward_of(...);

template <class Impl>
using ObservedForward = ObservedMethod<Impl, decltype(forward_of<Impl>(0))>;

}  // namespace detail
}  // namespace api0
}  // namespace ddpscope
