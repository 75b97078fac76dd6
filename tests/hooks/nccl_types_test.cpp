// What hooks/nccl_types.h says of NCCL is what its header says. Compiling is the test.
#include "hooks/nccl_types.h"

#include <nccl.h>

#include <string_view>
#include <type_traits>

namespace ddpscope {
namespace {
/// How an argument travels: numbers of one size alike, and addresses of whatever.
template <class T>
struct Passed {
  using Type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Passed<T> {
  static_assert(sizeof(T) == sizeof(int));
  using Type = int;
};
template <class T>
struct Passed<T*> {
  using Type = void*;
};
template <>
struct Passed<ncclUniqueId> {
  static_assert(sizeof(ncclUniqueId) == sizeof(nccl::UniqueId));
  static_assert(alignof(ncclUniqueId) == alignof(nccl::UniqueId));
  using Type = nccl::UniqueId;
};
template <class Result, class... Args>
struct Passed<Result(Args...)> {
  using Type = typename Passed<Result>::Type(typename Passed<std::remove_cv_t<Args>>::Type...);
};

template <class Ours, class Theirs>
constexpr bool kAgree = std::is_same_v<typename Passed<Ours>::Type, typename Passed<Theirs>::Type>;

static_assert(kAgree<nccl::AllReduce, decltype(ncclAllReduce)>);
static_assert(kAgree<nccl::Broadcast, decltype(ncclBroadcast)>);
static_assert(kAgree<nccl::Bcast, decltype(ncclBcast)>);
static_assert(kAgree<nccl::Reduce, decltype(ncclReduce)>);
static_assert(kAgree<nccl::AllGather, decltype(ncclAllGather)>);
static_assert(kAgree<nccl::ReduceScatter, decltype(ncclReduceScatter)>);
static_assert(kAgree<nccl::Send, decltype(ncclSend)>);
static_assert(kAgree<nccl::Receive, decltype(ncclRecv)>);
static_assert(kAgree<nccl::GroupStart, decltype(ncclGroupStart)>);
static_assert(kAgree<nccl::GroupEnd, decltype(ncclGroupEnd)>);
static_assert(kAgree<nccl::CommInitRank, decltype(ncclCommInitRank)>);
static_assert(kAgree<nccl::CommInitRankConfig, decltype(ncclCommInitRankConfig)>);
static_assert(kAgree<nccl::CommCount, decltype(ncclCommCount)>);
static_assert(!kAgree<nccl::AllReduce, decltype(ncclReduce)>);
static_assert(nccl::kSuccess == ncclSuccess && nccl::kInProgress == ncclInProgress);
static_assert(int{nccl::kSum} == ncclSum && int{nccl::kProduct} == ncclProd);
static_assert(int{nccl::kMax} == ncclMax && int{nccl::kMin} == ncclMin);
static_assert(int{nccl::kAverage} == ncclAvg);

constexpr bool is_named(int type, std::string_view name) {
  return nccl::kDataTypes[type].name == name;
}
static_assert(is_named(ncclInt8, "int8") && is_named(ncclUint8, "uint8"));
static_assert(is_named(ncclInt32, "int32") && is_named(ncclUint32, "uint32"));
static_assert(is_named(ncclInt64, "int64") && is_named(ncclUint64, "uint64"));
static_assert(is_named(ncclFloat16, "float16") && is_named(ncclFloat32, "float32"));
static_assert(is_named(ncclFloat64, "float64") && is_named(ncclBfloat16, "bfloat16"));
}  // namespace
}  // namespace ddpscope
