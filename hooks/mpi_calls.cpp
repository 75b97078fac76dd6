#include <dlfcn.h>

#include <array>
#include <cstring>
#include <tuple>
#include <vector>

#include "hooks/backend_groups.h"
#include "hooks/interposed.h"
#include "hooks/library_calls.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
/// Handles are pointers in Open MPI and 32 bits in MPICH: a register holds either.
using Handle = const void*;

using MpiAllReduce = int(const void*, void*, int count, Handle type, Handle op, Handle comm);
using MpiBcast = int(void*, int count, Handle type, int root, Handle comm);
using MpiReduce = int(const void*, void*, int count, Handle type, Handle op, int root, Handle comm);
using MpiAllGather = int(const void*, int count, Handle type, void*, int, Handle, Handle comm);
using MpiBarrier = int(Handle comm);
using MpiCommFree = int(void* comm);
// Those that return at once: where they put the request comes last.
using MpiStartedAllReduce = int(const void*, void*, int, Handle, Handle, Handle, const void*);
using MpiStartedBcast = int(void*, int, Handle, int, Handle, const void*);
using MpiStartedReduce = int(const void*, void*, int, Handle, Handle, int, Handle, const void*);
using MpiStartedAllGather = int(const void*, int, Handle, void*, int, Handle, Handle, const void*);
using MpiStartedBarrier = int(Handle, const void*);

template <class Function>
Function* mpi_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// What Open MPI calls its own objects; of other libraries their numbers are not known here.
template <class Meaning>
struct NamedHandle {
  const char* symbol;
  Meaning meaning;
};
constexpr auto kMpiTypes = std::to_array<NamedHandle<const char*>>({
    {"ompi_mpi_float", "float32"},
    {"ompi_mpi_double", "float64"},
    {"ompi_mpi_byte", "uint8"},
    {"ompi_mpi_int8_t", "int8"},
    {"ompi_mpi_uint8_t", "uint8"},
    {"ompi_mpi_int16_t", "int16"},
    {"ompi_mpi_int", "int32"},
    {"ompi_mpi_int32_t", "int32"},
    {"ompi_mpi_long", "int64"},
    {"ompi_mpi_int64_t", "int64"},
});
constexpr auto kMpiOps = std::to_array<NamedHandle<ReduceKind>>({
    {"ompi_mpi_op_sum", ReduceKind::kSum},
    {"ompi_mpi_op_prod", ReduceKind::kProduct},
    {"ompi_mpi_op_min", ReduceKind::kMin},
    {"ompi_mpi_op_max", ReduceKind::kMax},
    {"ompi_mpi_op_band", ReduceKind::kBitAnd},
    {"ompi_mpi_op_bor", ReduceKind::kBitOr},
    {"ompi_mpi_op_bxor", ReduceKind::kBitXor},
});

/// The functions of the library in use that tell what a handle is; none of them asks another rank.
class MpiLibrary {
 public:
  static const MpiLibrary& here() {
    static const auto* const leaked = new MpiLibrary;
    return *leaked;
  }

  Handle plain(Handle handle) const {
    if (world_ != nullptr) return handle;
    return reinterpret_cast<Handle>(reinterpret_cast<std::uintptr_t>(handle) & 0xffffffff);
  }
  std::size_t handle_bytes() const { return world_ != nullptr ? sizeof(Handle) : sizeof(int); }
  const char* type_name(Handle type) const { return meaning(types_, kMpiTypes, type, ""); }
  ReduceKind reduce(Handle op) const { return meaning(ops_, kMpiOps, op, ReduceKind::kOther); }
  std::int64_t bytes_of(Handle type) const {
    int bytes = 0;
    return type_size_ != nullptr && type_size_(type, &bytes) == 0 ? bytes : 0;
  }
  int size_of(Handle comm) const {
    int size = 0;
    return comm_size_ != nullptr && comm_size_(comm, &size) == 0 ? size : 0;
  }

  /// Of the ranks that are in it; 0 where that is not known.
  std::uint64_t identity_of(Handle comm, int size) const {
    Handle all = nullptr;
    Handle some = nullptr;
    if (world_ == nullptr || group_ == nullptr || ranks_ == nullptr || free_ == nullptr) return 0;
    if (group_(world_, &all) != 0 || group_(comm, &some) != 0) return 0;
    std::vector<int> own(static_cast<std::size_t>(size)), in_world(own.size());
    for (int i = 0; i < size; ++i) own[static_cast<std::size_t>(i)] = i;
    const bool known = ranks_(some, size, own.data(), all, in_world.data()) == 0;
    free_(&all);
    free_(&some);
    Hash hash;
    for (const int rank : in_world) hash.add(static_cast<std::uint64_t>(rank));
    return known ? hash.value() : 0;
  }

 private:
  MpiLibrary() {
    for (std::size_t i = 0; i < kMpiTypes.size(); ++i) types_[i] = mpi_object(kMpiTypes[i].symbol);
    for (std::size_t i = 0; i < kMpiOps.size(); ++i) ops_[i] = mpi_object(kMpiOps[i].symbol);
  }
  static Handle mpi_object(const char* name) { return dlsym(RTLD_DEFAULT, name); }

  template <std::size_t kSize, class Meaning>
  static Meaning meaning(const std::array<Handle, kSize>& handles,
                         const std::array<NamedHandle<Meaning>, kSize>& names, Handle handle,
                         Meaning otherwise) {
    for (std::size_t i = 0; i < kSize; ++i) {
      if (handles[i] == handle && handle != nullptr) return names[i].meaning;
    }
    return otherwise;
  }

  Handle world_ = mpi_object("ompi_mpi_comm_world");
  std::array<Handle, kMpiTypes.size()> types_{};
  std::array<Handle, kMpiOps.size()> ops_{};
  int (*comm_size_)(Handle, int*) = mpi_function<int(Handle, int*)>("PMPI_Comm_size");
  int (*type_size_)(Handle, int*) = mpi_function<int(Handle, int*)>("PMPI_Type_size");
  int (*group_)(Handle, Handle*) = mpi_function<int(Handle, Handle*)>("PMPI_Comm_group");
  int (*free_)(Handle*) = mpi_function<int(Handle*)>("PMPI_Group_free");
  int (*ranks_)(Handle, int, const int*, Handle, int*) =
      mpi_function<int(Handle, int, const int*, Handle, int*)>("PMPI_Group_translate_ranks");
};

BackendGroup* mpi_group(Handle handle) noexcept {
  try {
    const MpiLibrary& library = MpiLibrary::here();
    const Handle comm = library.plain(handle);
    if (BackendGroup* const known = backend_groups().find(comm)) return known;
    const int size = library.size_of(handle);
    if (size == 0) return nullptr;
    return &backend_groups().born({.address = comm,
                                   .backend = "mpi",
                                   .size = size,
                                   .identity = library.identity_of(handle, size)});
  } catch (...) {  // no memory: the call is not noted
    return nullptr;
  }
}

/// MPI_IN_PLACE of the libraries.
bool is_in_place(const void* values) {
  const auto address = reinterpret_cast<std::intptr_t>(values);
  return address == 1 || address == -1;
}

RawValues mpi_values(const void* sent, const void* received, int count, Handle type) {
  const MpiLibrary& library = MpiLibrary::here();
  return {.at = is_in_place(sent) ? received : sent,
          .elements = count,
          .bytes = count * library.bytes_of(type),
          .dtype = library.type_name(type)};
}

template <CallPlaces kAt, class... Args>
CallFacts mpi_facts(CollectiveKind kind, const std::tuple<Args&...>& given) {
  CallFacts facts{.kind = kind};
  if constexpr (kAt.count != kNowhere) {
    facts.raw = mpi_values(std::get<kAt.values>(given), std::get<kAt.received>(given),
                           std::get<kAt.count>(given), std::get<kAt.type>(given));
  }
  if constexpr (kAt.op != kNowhere) {
    facts.reduce = MpiLibrary::here().reduce(std::get<kAt.op>(given));
  }
  if constexpr (kAt.root != kNowhere) facts.root = std::get<kAt.root>(given);
  return facts;
}

template <CollectiveKind kKind, CallPlaces kAt, class Function>
struct MpiCall;
template <CollectiveKind kKind, CallPlaces kAt, class... Args>
struct MpiCall<kKind, kAt, int(Args...)> {
  using Hooked = Interposed<MpiCall, int(Args...)>;
  static int call(Args... args) {
    const auto given = std::tie(args...);
    CallFacts facts = mpi_facts<kAt>(kKind, given);
    facts.waits = true;
    return run_noted(
        mpi_group(std::get<kAt.comm>(given)), facts, [&] { return Hooked::original(args...); },
        [](int result) { return result != 0; });
  }
};

/// One that ends when its request is waited for. A group of one rank ends it at once, and may give
/// several calls one request.
template <CollectiveKind kKind, CallPlaces kAt, class Function>
struct MpiStarted;
template <CollectiveKind kKind, CallPlaces kAt, class... Args>
struct MpiStarted<kKind, kAt, int(Args...)> {
  using Hooked = Interposed<MpiStarted, int(Args...)>;
  static int call(Args... args) {
    const auto given = std::tie(args...);
    BackendGroup* const group = mpi_group(std::get<kAt.comm>(given));
    const auto original = [&] { return Hooked::original(args...); };
    if (group == nullptr) return original();
    LoggedCall noted(*group, mpi_facts<kAt>(kKind, given));
    const int result = original();
    const bool runs = result == 0 && group->size > 1;
    noted.returned(runs ? mpi_handle_at(std::get<sizeof...(Args) - 1>(given)) : nullptr);
    if (!runs) noted.ended(result != 0);
    return result;
  }
};

/// Its handle may be given to another communicator.
struct MpiCommGone {
  using Hooked = Interposed<MpiCommGone, MpiCommFree>;
  static int call(void* comm) {
    backend_groups().gone(mpi_handle_at(comm));
    return Hooked::original(comm);
  }
};

template <class Call>
void install_mpi_call(const char* name) {
  Call::Hooked::install(name, Call::call);
}
}  // namespace

const void* mpi_handle_at(const void* place, std::size_t index) {
  const std::size_t bytes = MpiLibrary::here().handle_bytes();
  Handle handle = nullptr;
  if (place == nullptr) return handle;  // an error, which the library tells
  std::memcpy(&handle, static_cast<const char*>(place) + index * bytes, bytes);
  return handle;
}

void install_mpi_calls() noexcept {
  using enum CollectiveKind;
  if (dlsym(RTLD_DEFAULT, "PMPI_Comm_size") == nullptr) return;
  constexpr CallPlaces kToAll = {.received = 1, .count = 2, .type = 3, .op = 4, .comm = 5};
  constexpr CallPlaces kToRoot = {
      .received = 1, .count = 2, .type = 3, .op = 4, .root = 5, .comm = 6};
  constexpr CallPlaces kFromRoot = {.count = 1, .type = 2, .root = 3, .comm = 4};
  constexpr CallPlaces kGathered = {.received = 3, .count = 1, .type = 2, .comm = 6};
  constexpr CallPlaces kNothing = {.count = kNowhere};
  install_mpi_call<MpiCall<kAllReduce, kToAll, MpiAllReduce>>("MPI_Allreduce");
  install_mpi_call<MpiCall<kReduce, kToRoot, MpiReduce>>("MPI_Reduce");
  install_mpi_call<MpiCall<kBroadcast, kFromRoot, MpiBcast>>("MPI_Bcast");
  install_mpi_call<MpiCall<kAllGather, kGathered, MpiAllGather>>("MPI_Allgather");
  install_mpi_call<MpiCall<kBarrier, kNothing, MpiBarrier>>("MPI_Barrier");
  install_mpi_call<MpiStarted<kAllReduce, kToAll, MpiStartedAllReduce>>("MPI_Iallreduce");
  install_mpi_call<MpiStarted<kReduce, kToRoot, MpiStartedReduce>>("MPI_Ireduce");
  install_mpi_call<MpiStarted<kBroadcast, kFromRoot, MpiStartedBcast>>("MPI_Ibcast");
  install_mpi_call<MpiStarted<kAllGather, kGathered, MpiStartedAllGather>>("MPI_Iallgather");
  install_mpi_call<MpiStarted<kBarrier, kNothing, MpiStartedBarrier>>("MPI_Ibarrier");
  install_mpi_requests();
  MpiCommGone::Hooked::install("MPI_Comm_free", MpiCommGone::call);
}

}  // namespace ddpscope
