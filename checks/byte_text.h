#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/tensor_info.h"

namespace ddpscope {

/// `12.0 MiB`, `512 bytes`.
std::string byte_text(std::int64_t bytes);

/// Of a type as `TensorInfo` names it; 4 where it is not known.
std::int64_t element_bytes(std::string_view dtype);
std::int64_t bytes_of(const TensorInfo& tensor);

}  // namespace ddpscope
