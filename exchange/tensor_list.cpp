#include "exchange/tensor_list.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "model/hash.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxPath = 4096;
constexpr std::size_t kMaxPathBytes = std::size_t{32}
                                      << 20;  // of all, which share their beginnings
constexpr std::size_t kMaxDimensions = 64;
constexpr std::size_t kLeastTensor = 5;  // bytes

constexpr std::uint64_t kBuffer = 1;
constexpr std::uint64_t kRequiresGrad = 2;
constexpr std::uint64_t kAllFlags = 3;

class Encoder {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// What was read is 0 or empty once something did not fit.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return fail();
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      if (shift == 63 && byte > 1) return fail();
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return byte == 0 && shift > 0 ? fail() : value;
    }
    return fail();
  }
  std::uint64_t number_up_to(std::uint64_t most) {
    const std::uint64_t value = number();
    return value <= most ? value : fail();
  }
  std::string_view text(std::size_t most) {
    const std::size_t size = number_up_to(std::min(most, rest_.size()));
    const std::string_view value = rest_.substr(0, std::min(size, rest_.size()));
    rest_.remove_prefix(value.size());
    return value;
  }
  std::size_t left() const { return rest_.size(); }
  bool failed() const { return failed_; }

 private:
  std::uint64_t fail() {
    failed_ = true;
    rest_ = {};
    return 0;
  }
  std::string_view rest_;
  bool failed_ = false;
};

std::uint64_t flags_of(const ListedTensor& tensor) {
  return (tensor.is_buffer ? kBuffer : 0) | (tensor.requires_grad ? kRequiresGrad : 0);
}

std::size_t shared_with(std::string_view before, std::string_view path) {
  const auto differs = std::ranges::mismatch(before, path);
  return static_cast<std::size_t>(differs.in1 - before.begin());
}

ListedTensor next_tensor(Decoder& in, const ListedTensor& before) {
  ListedTensor tensor;
  tensor.path = before.path.substr(0, in.number_up_to(before.path.size()));
  tensor.path += in.text(kMaxPath - tensor.path.size());
  tensor.dtype = in.text(kMaxPath);
  if (tensor.dtype.empty()) tensor.dtype = before.dtype;
  tensor.shape.resize(in.number_up_to(kMaxDimensions));
  for (std::int64_t& size : tensor.shape) size = std::bit_cast<std::int64_t>(in.number());
  const std::uint64_t flags = in.number_up_to(kAllFlags);
  tensor.is_buffer = (flags & kBuffer) != 0;
  tensor.requires_grad = (flags & kRequiresGrad) != 0;
  return tensor;
}
}  // namespace

std::uint64_t hash_of(const TensorList& list) {
  Hash hash;
  for (const ListedTensor& tensor : list.tensors) {
    hash.add(std::string_view(tensor.path));
    hash.add(std::string_view(tensor.dtype));
    hash.add(std::uint64_t{tensor.shape.size()});
    for (const std::int64_t size : tensor.shape) hash.add(std::bit_cast<std::uint64_t>(size));
    hash.add(flags_of(tensor));
  }
  return hash.value() == 0 ? 1 : hash.value();  // 0 would say nothing
}

// Neighbours share the beginning of their paths and mostly their dtype.
std::string encode(const TensorList& list) {
  Encoder out;
  out.text(std::string_view(list.model).substr(0, kMaxPath));
  out.number(list.tensors.size());
  std::string_view path_before;
  std::string_view dtype_before;
  for (const ListedTensor& tensor : list.tensors) {
    const std::string_view path = std::string_view(tensor.path).substr(0, kMaxPath);
    const std::size_t shared = shared_with(path_before, path);
    out.number(shared);
    out.text(path.substr(shared));
    out.text(tensor.dtype == dtype_before ? std::string_view() : tensor.dtype);
    const std::size_t dimensions = std::min(tensor.shape.size(), kMaxDimensions);
    out.number(dimensions);
    for (std::size_t i = 0; i < dimensions; ++i) {
      out.number(std::bit_cast<std::uint64_t>(tensor.shape[i]));
    }
    out.number(flags_of(tensor));
    path_before = path;
    dtype_before = tensor.dtype;
  }
  return out.take();
}

std::uint64_t elements_of(const ListedTensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

std::uint64_t trained_elements(const TensorList& list) {
  std::uint64_t elements = 0;
  for (const ListedTensor& tensor : list.tensors) {
    if (!tensor.is_buffer && tensor.requires_grad) elements += elements_of(tensor);
  }
  return elements;
}

std::optional<TensorList> decode_tensor_list(std::string_view bytes) {
  Decoder in(bytes);
  TensorList list{.model = std::string(in.text(kMaxPath)), .tensors = {}};
  const std::uint64_t count = in.number_up_to(bytes.size() / kLeastTensor);
  std::size_t path_bytes = 0;
  ListedTensor before;
  for (std::uint64_t i = 0; i < count && !in.failed(); ++i) {
    before = next_tensor(in, before);
    path_bytes += before.path.size();
    if (path_bytes > kMaxPathBytes) return std::nullopt;
    list.tensors.push_back(before);
  }
  if (in.failed() || in.left() > 0) return std::nullopt;
  return list;
}

}  // namespace ddpscope
