#include "checks/byte_text.h"

#include <fmt/format.h>

#include <array>

namespace ddpscope {

std::string byte_text(std::int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::int64_t element_bytes(std::string_view dtype) {
  if (dtype == "complex128") return 16;
  if (dtype == "float64" || dtype == "int64" || dtype == "complex64") return 8;
  if (dtype == "float16" || dtype == "bfloat16" || dtype == "int16") return 2;
  if (dtype == "uint8" || dtype == "int8" || dtype == "bool") return 1;
  return 4;
}

std::int64_t bytes_of(const TensorInfo& tensor) {
  return tensor.elements * element_bytes(tensor.dtype);
}

}  // namespace ddpscope
