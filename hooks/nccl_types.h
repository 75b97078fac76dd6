#pragma once

#include <cstddef>

// The calls of NCCL that a program makes itself, in words of our own: the library and its header
// are not needed. tests/hooks/nccl_types_test.cpp compares them with the header where it is there.
namespace ddpscope::nccl {

struct UniqueId {
  char bytes[128];
};

using Comm = const void*;
using Stream = const void*;

using AllReduce = int(const void*, void*, std::size_t, int type, int op, Comm, Stream);
using Broadcast = int(const void*, void*, std::size_t, int type, int root, Comm, Stream);
using Bcast = int(void*, std::size_t, int type, int root, Comm, Stream);
using Reduce = int(const void*, void*, std::size_t, int type, int op, int root, Comm, Stream);
using AllGather = int(const void*, void*, std::size_t, int type, Comm, Stream);
using ReduceScatter = int(const void*, void*, std::size_t, int type, int op, Comm, Stream);
using Send = int(const void*, std::size_t, int type, int peer, Comm, Stream);
using Receive = int(void*, std::size_t, int type, int peer, Comm, Stream);
using GroupStart = int();
using GroupEnd = int();
using CommInitRank = int(Comm*, int size, UniqueId, int rank);
using CommInitRankConfig = int(Comm*, int size, UniqueId, int rank, void* config);
using CommCount = int(Comm, int* count);

inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;

enum Op : int { kSum, kProduct, kMax, kMin, kAverage };

struct DataType {
  const char* name;  ///< as all events name it
  int bytes;
};
/// By the number that NCCL gives them.
inline constexpr DataType kDataTypes[] = {
    {"int8", 1},    {"uint8", 1},    {"int32", 4},         {"uint32", 4},
    {"int64", 8},   {"uint64", 8},   {"float16", 2},       {"float32", 4},
    {"float64", 8}, {"bfloat16", 2}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};

}  // namespace ddpscope::nccl
