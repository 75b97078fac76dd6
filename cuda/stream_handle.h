#pragma once

#include <stdexcept>
#include <string>

struct CUstream_st;

namespace ddpscope {

/// Of a c10::Stream: LibTorch 2.8 tells its handle in the library for CUDA alone, which we do not
/// link.
template <class Stream>
concept TellsHandle = requires(const Stream& stream) {
  stream.native_handle();
};

inline constexpr char kTellsNoHandle[] =
    "it was built for a LibTorch before 2.9, which does not tell the stream of a device";

/// @throws std::runtime_error where LibTorch does not tell it.
template <class Stream>
CUstream_st* handle_of(const Stream& stream) {
  if constexpr (TellsHandle<Stream>) {
    return static_cast<CUstream_st*>(stream.native_handle());
  } else {
    throw std::runtime_error(std::string("ddpscope cannot compute on a device: ") + kTellsNoHandle);
  }
}

}  // namespace ddpscope
