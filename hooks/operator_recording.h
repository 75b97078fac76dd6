#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <mutex>
#include <utility>

namespace ddpscope {

/// A callback around the operators of all threads, with their inputs and outputs, that can be
/// switched on and off. While it is on, each operator of the program is slower.
class OperatorRecording {
 public:
  using Begin = std::unique_ptr<at::ObserverContext> (*)(const at::RecordFunction& function);
  using End = void (*)(const at::RecordFunction& function, at::ObserverContext* context);
  constexpr OperatorRecording(Begin begin, End end) : begin_(begin), end_(end) {}

  /// @throws std::bad_alloc; it stays as it was then.
  void set(bool on) {
    const std::lock_guard lock(mutex_);
    if (on && handle_ == at::INVALID_CALLBACK_HANDLE) {
      handle_ = at::addGlobalCallback(at::RecordFunctionCallback(begin_, end_)
                                          .needsInputs(true)
                                          .needsOutputs(true)
                                          .scopes({at::RecordScope::FUNCTION}));
    } else if (!on && handle_ != at::INVALID_CALLBACK_HANDLE) {
      at::removeCallback(std::exchange(handle_, at::INVALID_CALLBACK_HANDLE));
    }
  }

 private:
  const Begin begin_;
  const End end_;
  std::mutex mutex_;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace ddpscope
