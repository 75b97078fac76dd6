#pragma once

#include <c10/util/Exception.h>

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

/// @throws c10::Error where LibTorch does not tell it.
template <class Stream>
CUstream_st* handle_of(const Stream& stream) {
  TORCH_CHECK(TellsHandle<Stream>, "ddpscope cannot compute on a device: ", kTellsNoHandle);
  if constexpr (TellsHandle<Stream>) return static_cast<CUstream_st*>(stream.native_handle());
  return nullptr;
}

}  // namespace ddpscope
