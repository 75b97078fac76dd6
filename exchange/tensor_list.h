#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddpscope {

/// One registered tensor as ranks compare it.
struct ListedTensor {
  std::string path;   ///< `conv1.weight`
  std::string dtype;  ///< `float32`
  std::vector<std::int64_t> shape;
  bool is_buffer = false;
  bool requires_grad = false;
};

struct TensorList {
  std::string model;                  ///< label
  std::vector<ListedTensor> tensors;  ///< in registered order
};

/// A file may say any shape: what it multiplies to is then any number.
std::uint64_t elements_of(const ListedTensor& tensor);
/// Of all parameters that require a gradient.
std::uint64_t trained_elements(const TensorList& list);

/// Equal for equal lists, whatever the label.
std::uint64_t hash_of(const TensorList& list);

std::string encode(const TensorList& list);
/// Nothing for bytes that `encode` did not write.
std::optional<TensorList> decode_tensor_list(std::string_view bytes);

}  // namespace ddpscope
