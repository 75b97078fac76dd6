#pragma once

#include <cstdint>
#include <cstring>

namespace ddpscope {

/// Reads the little-endian numbers of a DWARF section; past the end everything reads as 0.
class ByteReader {
 public:
  ByteReader(const std::uint8_t* at, const std::uint8_t* end) noexcept : at_(at), end_(end) {}

  const std::uint8_t* at() const noexcept { return at_; }
  const std::uint8_t* end() const noexcept { return end_; }
  bool failed() const noexcept { return failed_; }
  bool done() const noexcept { return failed_ || at_ >= end_; }

  template <typename T>
  T read() noexcept {
    T value{};
    if (!has(sizeof(T))) return value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::uint64_t uleb() noexcept { return leb(nullptr); }
  std::int64_t sleb() noexcept {
    int bits = 0;
    const std::uint64_t value = leb(&bits);
    if (bits == 0 || bits >= 64 || (value >> (bits - 1) & 1) == 0) return std::int64_t(value);
    return std::int64_t(value | ~std::uint64_t{0} << bits);
  }
  void skip(std::uint64_t bytes) noexcept {
    if (has(bytes)) at_ += bytes;
  }
  const char* text() noexcept {
    const char* begin = reinterpret_cast<const char*>(at_);
    while (read<std::uint8_t>() != 0) {
    }
    return failed_ ? "" : begin;
  }

 private:
  bool has(std::uint64_t bytes) noexcept {
    failed_ = failed_ || bytes > std::uint64_t(end_ - at_);
    return !failed_;
  }
  std::uint64_t leb(int* bits) noexcept {
    std::uint64_t value = 0;
    int shift = 0;
    std::uint8_t byte = 0x80;
    while ((byte & 0x80) != 0 && !failed_) {
      byte = read<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t(byte & 0x7f) << shift;
      shift += 7;
    }
    if (bits != nullptr) *bits = shift;
    return value;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool failed_ = false;
};

}  // namespace ddpscope
