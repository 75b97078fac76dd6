#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

namespace ddpscope {

/// What keeps a node alive: std::shared_ptr or, in later versions of LibTorch, c10::intrusive_ptr.
using NodePointer = decltype(torch::autograd::Edge::function);
inline constexpr bool kNodesAreShared =
    std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>;

template <class Pointer>
struct WeakOf;
template <class T>
struct WeakOf<std::shared_ptr<T>> {
  using Type = std::weak_ptr<T>;
};
template <class T>
struct WeakOf<c10::intrusive_ptr<T>> {
  using Type = c10::weak_intrusive_ptr<T>;
};
using WeakNodePointer = WeakOf<NodePointer>::Type;

}  // namespace ddpscope
