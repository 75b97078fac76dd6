#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/call_log.h"

namespace ddpscope {

// What the functions of c10d's backends are given.
using TensorList = std::vector<at::Tensor>;
using NestedList = std::vector<TensorList>;

/// A mangled name as a template argument.
template <std::size_t kSize>
struct Mangled {
  constexpr Mangled(const char (&text)[kSize]) { std::copy_n(text, kSize, letters); }  // NOLINT
  constexpr bool has(std::string_view part) const {
    return !std::ranges::search(letters, part).empty();
  }
  char letters[kSize] = {};
};

inline std::span<const at::Tensor> all_of(const TensorList& list) { return list; }
inline std::span<const at::Tensor> all_of(const at::Tensor& tensor) { return {&tensor, 1}; }

inline std::span<const at::Tensor> written_to(const TensorList& list) { return list; }
inline std::span<const at::Tensor> written_to(const at::Tensor& tensor) { return {&tensor, 1}; }
inline std::span<const at::Tensor> written_to(const NestedList& lists) {
  return lists.empty() ? std::span<const at::Tensor>() : written_to(lists.front());
}

template <class Options>
ReduceKind reduce_of(const Options& options) {
  if constexpr (requires { options.reduceOp; }) {
    const auto op = static_cast<int>(options.reduceOp.op_) + 1;
    return static_cast<ReduceKind>(std::min(op, static_cast<int>(ReduceKind::kOther)));
  } else {
    return ReduceKind::kNone;
  }
}

template <class Options>
std::int32_t root_of(const Options& options) {
  if constexpr (requires { options.rootRank; }) {
    return static_cast<std::int32_t>(options.rootRank);
  } else {
    return -1;
  }
}

template <class Options>
bool waits_in(const Options& options) {
  if constexpr (requires { options.asyncOp; }) {
    return !options.asyncOp;
  } else {
    return false;
  }
}

}  // namespace ddpscope
