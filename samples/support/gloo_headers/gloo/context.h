// Stands in for Gloo's header, which LibTorch packages leave out although
// c10d/ProcessGroupGloo.hpp asks for it. c10d keeps Gloo objects behind pointers and makes them
// inside LibTorch, so declarations are enough here.
#pragma once
#include <chrono>
#include <memory>

namespace gloo {
class Context {
 public:
  Context() = delete;
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
