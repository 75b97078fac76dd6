#pragma once

#include <string>

namespace ddpscope {

/// Of the CUDA runtime that this process has loaded, as its file is named: `13.0.96`, or `13` where
/// the name says no more. Empty without one, and where it is linked statically. Calls nothing.
std::string cuda_version();
/// Of the NCCL that this process has loaded: `2.27.5`; empty without one.
std::string nccl_version();
/// `code` as ncclGetVersion gives it: 2708 is 2.7.8, and from 2.9 on 20908 is 2.9.8.
std::string nccl_version_of(int code);

}  // namespace ddpscope
