#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>
#include <vector>

#include "hooks/backend_groups.h"
#include "hooks/interposed.h"
#include "hooks/library_calls.h"
#include "hooks/nccl_types.h"
#include "hooks/per_thread.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
/// What LibTorch calls itself is part of a call of its backend, which is noted.
bool is_of_torch(const void* caller) noexcept {
  Dl_info info;
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "/libtorch_") != nullptr;
}

bool nccl_failed(int result) { return result != nccl::kSuccess && result != nccl::kInProgress; }

BackendGroup* nccl_group(nccl::Comm comm) noexcept {
  static auto* const count =
      reinterpret_cast<nccl::CommCount*>(dlsym(RTLD_DEFAULT, "ncclCommCount"));
  try {
    if (BackendGroup* const known = backend_groups().find(comm)) return known;
    int size = 0;
    if (count == nullptr || count(comm, &size) != nccl::kSuccess) return nullptr;
    return &backend_groups().born({.address = comm, .backend = "nccl", .size = size});
  } catch (...) {  // no memory: the call is not noted
    return nullptr;
  }
}

ReduceKind nccl_reduce(int op) {
  switch (op) {
    case nccl::kSum:
      return ReduceKind::kSum;
    case nccl::kProduct:
      return ReduceKind::kProduct;
    case nccl::kMax:
      return ReduceKind::kMax;
    case nccl::kMin:
      return ReduceKind::kMin;
    case nccl::kAverage:
      return ReduceKind::kAverage;
    default:
      return ReduceKind::kOther;
  }
}

RawValues nccl_values(const void* at, std::size_t count, int type) {
  const auto elements = static_cast<std::int64_t>(count);
  if (type < 0 || type >= static_cast<int>(std::size(nccl::kDataTypes))) {
    return {.at = at, .elements = elements};
  }
  const nccl::DataType& data = nccl::kDataTypes[type];
  return {.at = at, .elements = elements, .bytes = elements * data.bytes, .dtype = data.name};
}

/// The calls between ncclGroupStart and ncclGroupEnd of a thread: one call for each communicator.
/// In which order they stand there says nothing.
class NcclBlock {
 public:
  bool is_open() const { return depth_ > 0; }
  void begin() { ++depth_; }
  template <class Original>
  int part(nccl::Comm comm, const CallFacts& facts, const Original& original) {
    add(comm, facts);
    ++calling_;
    const int result = original();
    --calling_;
    return result;
  }
  /// Notes the block where its last end comes.
  void end() noexcept {
    if (depth_ > 0 && --depth_ > 0) return;
    while (!calls_.empty()) note(take_first());
    calls_.clear();
  }

 private:
  struct Call {
    nccl::Comm comm = nullptr;
    CallFacts facts;
  };

  void add(nccl::Comm comm, const CallFacts& facts) noexcept {
    if (calling_ > 0) return;  // some calls of NCCL are made of others
    try {
      calls_.push_back({comm, facts});
    } catch (...) {  // no memory: one call less in it
    }
  }

  static bool is_message(CollectiveKind kind) {
    return kind == CollectiveKind::kSend || kind == CollectiveKind::kReceive;
  }

  static void join(CallFacts& all, const CallFacts& one) {
    const bool messages = is_message(all.kind) && is_message(one.kind);
    all.kind =
        messages && all.kind != one.kind ? CollectiveKind::kSend : std::min(all.kind, one.kind);
    if (all.reduce != one.reduce) all.reduce = ReduceKind::kOther;
    if (all.root != one.root) all.root = -1;
    RawValues& values = *all.raw;
    if (std::strcmp(values.dtype, one.raw->dtype) != 0) values.dtype = "";
    values.at = nullptr;
    values.elements += one.raw->elements;
    values.bytes += one.raw->bytes;
    ++values.list;
    all.coalesced = true;
  }

  /// All calls of the communicator that the first one is of.
  Call take_first() noexcept {
    Call first = calls_.front();
    calls_.erase(calls_.begin());
    std::erase_if(calls_, [&first](const Call& call) {
      if (call.comm != first.comm) return false;
      join(first.facts, call.facts);
      return true;
    });
    return first;
  }

  static void note(const Call& call) noexcept {
    run_noted(
        nccl_group(call.comm), call.facts, [] { return nccl::kSuccess; }, nccl_failed);
  }

  int depth_ = 0;
  int calling_ = 0;
  std::vector<Call> calls_;
};

template <CollectiveKind kKind, CallPlaces kAt, class Function>
struct NcclCall;
template <CollectiveKind kKind, CallPlaces kAt, class... Args>
struct NcclCall<kKind, kAt, int(Args...)> {
  using Hooked = Interposed<NcclCall, int(Args...)>;
  static int call(Args... args) {
    if (is_of_torch(__builtin_return_address(0))) return Hooked::original(args...);
    const auto given = std::tie(args...);
    CallFacts facts{.kind = kKind};
    facts.raw = nccl_values(std::get<kAt.values>(given), std::get<kAt.count>(given),
                            std::get<kAt.type>(given));
    if constexpr (kAt.op != kNowhere) facts.reduce = nccl_reduce(std::get<kAt.op>(given));
    if constexpr (kAt.root != kNowhere) facts.root = std::get<kAt.root>(given);
    const nccl::Comm comm = std::get<kAt.comm>(given);
    NcclBlock& block = PerThread<NcclBlock>::get();
    if (block.is_open()) {
      return block.part(comm, facts, [&] { return Hooked::original(args...); });
    }
    return run_noted(
        nccl_group(comm), facts, [&] { return Hooked::original(args...); }, nccl_failed);
  }
};

struct NcclGroupStart {
  using Hooked = Interposed<NcclGroupStart, nccl::GroupStart>;
  static int call() {
    if (!is_of_torch(__builtin_return_address(0))) PerThread<NcclBlock>::get().begin();
    return Hooked::original();
  }
};

// NCCL issues what the block holds when it ends.
struct NcclGroupEnd {
  using Hooked = Interposed<NcclGroupEnd, nccl::GroupEnd>;
  static int call() {
    if (!is_of_torch(__builtin_return_address(0))) PerThread<NcclBlock>::get().end();
    return Hooked::original();
  }
};

/// What all ranks of a communicator know of it: its size and the id that they were given.
template <class Function>
struct NcclBorn;
template <class... Rest>
struct NcclBorn<int(nccl::Comm*, int, nccl::UniqueId, int, Rest...)> {
  using Hooked = Interposed<NcclBorn, int(nccl::Comm*, int, nccl::UniqueId, int, Rest...)>;
  static int call(nccl::Comm* made, int size, nccl::UniqueId id, int rank, Rest... rest) {
    const int result = Hooked::original(made, size, id, rank, rest...);
    if (nccl_failed(result) || is_of_torch(__builtin_return_address(0))) return result;
    try {
      Hash hash;
      hash.add(std::string_view(id.bytes, sizeof id.bytes));
      backend_groups().born(
          {.address = *made, .backend = "nccl", .size = size, .identity = hash.value()});
    } catch (...) {  // the group is met at its first call
    }
    return result;
  }
};

template <CollectiveKind kKind, CallPlaces kAt, class Function>
void install_nccl_call(const char* name) {
  using Call = NcclCall<kKind, kAt, Function>;
  Call::Hooked::install(name, Call::call);
}
}  // namespace

void install_nccl_calls() noexcept {
  using enum CollectiveKind;
  if (dlsym(RTLD_DEFAULT, "ncclCommCount") == nullptr) return;
  constexpr CallPlaces kReducing = {.values = 0, .count = 2, .type = 3, .op = 4, .comm = 5};
  constexpr CallPlaces kFromRoot = {.values = 1, .count = 2, .type = 3, .root = 4, .comm = 5};
  constexpr CallPlaces kToRoot = {.count = 2, .type = 3, .op = 4, .root = 5, .comm = 6};
  constexpr CallPlaces kMessage = {.count = 1, .type = 2, .root = 3, .comm = 4};
  install_nccl_call<kAllReduce, kReducing, nccl::AllReduce>("ncclAllReduce");
  constexpr CallPlaces kParts = {.values = 1, .count = 2, .type = 3, .op = 4, .comm = 5};
  install_nccl_call<kReduceScatter, kParts, nccl::ReduceScatter>("ncclReduceScatter");
  install_nccl_call<kBroadcast, kFromRoot, nccl::Broadcast>("ncclBroadcast");
  install_nccl_call<kBroadcast, kMessage, nccl::Bcast>("ncclBcast");
  install_nccl_call<kReduce, kToRoot, nccl::Reduce>("ncclReduce");
  constexpr CallPlaces kGathering = {.count = 2, .type = 3, .comm = 4};
  install_nccl_call<kAllGather, kGathering, nccl::AllGather>("ncclAllGather");
  install_nccl_call<kSend, kMessage, nccl::Send>("ncclSend");
  install_nccl_call<kReceive, kMessage, nccl::Receive>("ncclRecv");
  NcclGroupStart::Hooked::install("ncclGroupStart", NcclGroupStart::call);
  NcclGroupEnd::Hooked::install("ncclGroupEnd", NcclGroupEnd::call);
  using Born = NcclBorn<nccl::CommInitRank>;
  Born::Hooked::install("ncclCommInitRank", Born::call);
  using BornWith = NcclBorn<nccl::CommInitRankConfig>;
  BornWith::Hooked::install("ncclCommInitRankConfig", BornWith::call);
}

}  // namespace ddpscope
