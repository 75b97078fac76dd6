#pragma once

#include <cstdint>

/// Reads so many words of 8 bytes, a multiple of 32, as fast as this processor can.
std::uint64_t read_all(const std::uint64_t* words, std::int64_t count);
