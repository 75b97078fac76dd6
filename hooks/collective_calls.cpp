#include <atomic>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <tuple>

#include "hooks/backend_groups.h"
#include "hooks/call_arguments.h"
#include "hooks/collective_watch.h"
#include "hooks/interposed.h"
#include "model/hot_code.h"

namespace ddpscope {
namespace {
using Sizes = std::vector<std::int64_t>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// Of classes whose headers not every LibTorch can compile: only the names of the functions.
constexpr char kGloo[] = "_ZN4c10d16ProcessGroupGloo";
constexpr char kNccl[] = "_ZN4c10d16ProcessGroupNCCL";

#define DDPSCOPE_TENSORS "St6vectorIN2at6TensorESaIS3_EE"

// Set at start-up: whether Gloo's own threads tell the ends of its calls.
constinit std::atomic<bool> ends_are_told{false};

// To ask a `Work` takes its lock, for which the thread that ends it may wait; to ask that of a
// device is no brief thing.
template <const char* kBackend, class Run>
DDPSCOPE_HOT WorkPointer run_logged(const c10d::Backend* backend, const CallFacts& facts,
                                    const Run& run) {
  LoggedCall call(*backend, facts);
  WorkPointer work = run();
  call.returned(work.get());
  const bool is_asked = kBackend == kGloo && !ends_are_told && call.is_outermost() && work;
  if (is_asked && work->isCompleted()) call.ended(/*failed=*/!work->isSuccess());
  return work;
}

/// `kName` is the rest of the mangled name, `kWhich` the argument with the tensors of this rank.
template <const char* kBackend, Mangled kName, CollectiveKind kKind, std::size_t kWhich,
          class Options, class... Tensors>
struct Collective {
  using Hooked = Interposed<Collective, WorkPointer(c10d::Backend*, Tensors..., const Options&)>;
  DDPSCOPE_HOT static WorkPointer call(c10d::Backend* self, Tensors... tensors,
                                       const Options& options) {
    CallFacts facts{.kind = kKind,
                    .reduce = reduce_of(options),
                    .root = root_of(options),
                    .coalesced = kIsCoalesced,
                    .waits = waits_in(options)};
    if constexpr (kKind == CollectiveKind::kAllGather) {
      facts.gathered = written_to(std::get<0>(std::tie(tensors...)));
    }
    if constexpr (sizeof...(Tensors) > 0) {
      facts.tensors = all_of(std::get<kWhich>(std::tie(tensors...)));
    }
    return run_logged<kBackend>(self, facts,
                                [&] { return Hooked::original(self, tensors..., options); });
  }
  static bool install() noexcept { return Hooked::install(symbol().c_str(), call); }
  static bool is_there() noexcept { return Gate::slot(symbol().c_str()) != nullptr; }

 private:
  static std::string symbol() { return std::string(kBackend) + kName.letters; }
  static constexpr bool kIsCoalesced = kName.has("coalesced");
};

template <const char* kBackend, Mangled kName, CollectiveKind kKind>
struct Message {
  using Hooked = Interposed<Message, WorkPointer(c10d::Backend*, TensorList&, int, int)>;
  static WorkPointer call(c10d::Backend* self, TensorList& tensors, int peer, int tag) {
    const CallFacts facts{.kind = kKind, .root = peer, .tensors = tensors};
    return run_logged<kBackend>(self, facts,
                                [&] { return Hooked::original(self, tensors, peer, tag); });
  }
  static bool install() noexcept {
    return Hooked::install((std::string(kBackend) + kName.letters).c_str(), call);
  }
};

template <const char* kBackend>
struct MessageOfAnyone {
  using Hooked = Interposed<MessageOfAnyone, WorkPointer(c10d::Backend*, TensorList&, int)>;
  static WorkPointer call(c10d::Backend* self, TensorList& tensors, int tag) {
    const CallFacts facts{.kind = CollectiveKind::kReceive, .tensors = tensors};
    return run_logged<kBackend>(self, facts, [&] { return Hooked::original(self, tensors, tag); });
  }
  static bool install() noexcept {
    return Hooked::install(
        (std::string(kBackend) + "13recvAnysourceER" DDPSCOPE_TENSORS "i").c_str(), call);
  }
};

struct MonitoredBarrier {
  using Hooked =
      Interposed<MonitoredBarrier, void(c10d::Backend*, const c10d::BarrierOptions&, bool)>;
  static void call(c10d::Backend* self, const c10d::BarrierOptions& options, bool all_ranks) {
    LoggedCall logged(*self, {.kind = CollectiveKind::kBarrier, .waits = true});
    Hooked::original(self, options, all_ranks);
    logged.returned(nullptr);
    logged.ended(/*failed=*/false);
  }
};

struct Finished {
  using Hooked = Interposed<Finished, void(void*)>;
  static void call(void* work) {
    Hooked::original(work);
    call_ended(work, /*failed=*/false);
  }
};

struct FinishedWithError {
  using Hooked = Interposed<FinishedWithError, void(void*, const std::exception_ptr&)>;
  static void call(void* work, const std::exception_ptr& error) {
    Hooked::original(work, error);
    call_ended(work, /*failed=*/true);
  }
};

/// Classes that wait in their own way.
template <int kClass>
struct WorkWait {
  using Hooked = Interposed<WorkWait, bool(void*, std::chrono::milliseconds)>;
  DDPSCOPE_HOT static bool call(void* work, std::chrono::milliseconds timeout) {
    const CallWait wait(work);
    return Hooked::original(work, timeout);
  }
};

#define DDPSCOPE_AND_TENSORS "RS1_IS5_SaIS5_EE"
#define DDPSCOPE_NESTED "St6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_"
#define DDPSCOPE_TWO "RN2at6TensorES3_"

/// A call that has another name in later versions of LibTorch.
template <const char* kBackend, Mangled kOlder, Mangled kLater, CollectiveKind kKind,
          std::size_t kWhich, class Options, class... Tensors>
bool install_renamed() noexcept {
  using Later = Collective<kBackend, kLater, kKind, kWhich, Options, Tensors...>;
  if (Later::is_there()) return Later::install();
  return Collective<kBackend, kOlder, kKind, kWhich, Options, Tensors...>::install();
}

template <const char* kBackend>
bool install_reductions() noexcept {
  using enum CollectiveKind;
  using c10d::AllreduceOptions;
  using c10d::ReduceScatterOptions;
  bool live = Collective<kBackend, "9allreduceER" DDPSCOPE_TENSORS "RKNS_16AllreduceOptionsE",
                         kAllReduce, 0, AllreduceOptions, TensorList&>::install();
  live &= Collective<kBackend, "16allreduce_sparseER" DDPSCOPE_TENSORS "RKNS_16AllreduceOptionsE",
                     kAllReduce, 0, AllreduceOptions, TensorList&>::install();
  live &= Collective<kBackend,
                     "19allreduce_coalescedER" DDPSCOPE_TENSORS "RKNS_25AllreduceCoalescedOptionsE",
                     kAllReduce, 0, c10d::AllreduceCoalescedOptions, TensorList&>::install();
  live &= Collective<kBackend, "6reduceER" DDPSCOPE_TENSORS "RKNS_13ReduceOptionsE", kReduce, 0,
                     c10d::ReduceOptions, TensorList&>::install();
  live &= Collective<kBackend,
                     "14reduce_scatterER" DDPSCOPE_TENSORS DDPSCOPE_AND_TENSORS
                     "RKNS_20ReduceScatterOptionsE",
                     kReduceScatter, 0, ReduceScatterOptions, TensorList&, NestedList&>::install();
  live &= install_renamed<kBackend,
                          "20_reduce_scatter_baseE" DDPSCOPE_TWO "RKNS_20ReduceScatterOptionsE",
                          "21reduce_scatter_singleE" DDPSCOPE_TWO "RKNS_20ReduceScatterOptionsE",
                          kReduceScatter, 0, ReduceScatterOptions, at::Tensor&, at::Tensor&>();
  live &= install_renamed<
      kBackend,
      "31reduce_scatter_tensor_coalescedER" DDPSCOPE_TENSORS "S6_RKNS_20ReduceScatterOptionsE",
      "31reduce_scatter_single_coalescedER" DDPSCOPE_TENSORS "S6_RKNS_20ReduceScatterOptionsE",
      kReduceScatter, 0, ReduceScatterOptions, TensorList&, TensorList&>();
  return live;
}

template <const char* kBackend>
bool install_gatherings() noexcept {
  using enum CollectiveKind;
  using c10d::AllgatherOptions;
  bool live = Collective<kBackend, "9allgatherER" DDPSCOPE_NESTED "RKNS_16AllgatherOptionsE",
                         kAllGather, 1, AllgatherOptions, NestedList&, TensorList&>::install();
  live &= Collective<kBackend, "19allgather_coalescedER" DDPSCOPE_NESTED "RKNS_16AllgatherOptionsE",
                     kAllGather, 1, AllgatherOptions, NestedList&, TensorList&>::install();
  live &= install_renamed<
      kBackend,
      "31allgather_into_tensor_coalescedER" DDPSCOPE_TENSORS "S6_RKNS_16AllgatherOptionsE",
      "27all_gather_single_coalescedER" DDPSCOPE_TENSORS "S6_RKNS_16AllgatherOptionsE", kAllGather,
      1, AllgatherOptions, TensorList&, TensorList&>();
  live &= install_renamed<kBackend, "15_allgather_baseE" DDPSCOPE_TWO "RKNS_16AllgatherOptionsE",
                          "17all_gather_singleE" DDPSCOPE_TWO "RKNS_16AllgatherOptionsE",
                          kAllGather, 1, AllgatherOptions, at::Tensor&, at::Tensor&>();
  live &= Collective<kBackend, "6gatherER" DDPSCOPE_NESTED "RKNS_13GatherOptionsE", kGather, 1,
                     c10d::GatherOptions, NestedList&, TensorList&>::install();
  return live;
}

template <const char* kBackend>
bool install_others() noexcept {
  using enum CollectiveKind;
  bool live = Collective<kBackend, "9broadcastER" DDPSCOPE_TENSORS "RKNS_16BroadcastOptionsE",
                         kBroadcast, 0, c10d::BroadcastOptions, TensorList&>::install();
  live &= Collective<kBackend,
                     "7scatterER" DDPSCOPE_TENSORS DDPSCOPE_AND_TENSORS "RKNS_14ScatterOptionsE",
                     kScatter, 0, c10d::ScatterOptions, TensorList&, NestedList&>::install();
  live &= install_renamed<
      kBackend, "13alltoall_baseE" DDPSCOPE_TWO "RSt6vectorIlSaIlEES7_RKNS_15AllToAllOptionsE",
      "17all_to_all_singleE" DDPSCOPE_TWO "RSt6vectorIlSaIlEES7_RKNS_15AllToAllOptionsE", kAllToAll,
      1, c10d::AllToAllOptions, at::Tensor&, at::Tensor&, Sizes&, Sizes&>();
  live &= Collective<kBackend, "7barrierERKNS_14BarrierOptionsE", kBarrier, 0,
                     c10d::BarrierOptions>::install();
  live &= Message<kBackend, "4sendER" DDPSCOPE_TENSORS "ii", kSend>::install();
  live &= Message<kBackend, "4recvER" DDPSCOPE_TENSORS "ii", kReceive>::install();
  live &= MessageOfAnyone<kBackend>::install();
  return live;
}

template <const char* kBackend>
bool install_calls() noexcept {
  const bool reductions = install_reductions<kBackend>();
  const bool gatherings = install_gatherings<kBackend>();
  return install_others<kBackend>() && reductions && gatherings;
}

bool install_call_ends() noexcept {
  constexpr char kWait[] = "4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE";
  const std::string gloo = kGloo;
  bool live = MonitoredBarrier::Hooked::install(
      (gloo + "16monitoredBarrierERKNS_14BarrierOptionsEb").c_str(), MonitoredBarrier::call);
  const bool finished =
      Finished::Hooked::install((gloo + "9AsyncWork14finishWorkGlooEv").c_str(), Finished::call);
  const bool failed = FinishedWithError::Hooked::install(
      (gloo + "9AsyncWork19finishWorkGlooErrorERKNSt15__exception_ptr13exception_ptrE").c_str(),
      FinishedWithError::call);
  ends_are_told = finished && failed;
  live &= finished && failed;
  live &= WorkWait<0>::Hooked::install((gloo + "8SendWork" + kWait).c_str(), WorkWait<0>::call);
  live &= WorkWait<1>::Hooked::install((gloo + "8RecvWork" + kWait).c_str(), WorkWait<1>::call);
  return live;
}

// Of lists, which Gloo has in later versions of LibTorch alone.
template <const char* kBackend>
void install_all_to_all() noexcept {
  using AllToAll =
      Collective<kBackend, "8alltoallER" DDPSCOPE_TENSORS "S6_RKNS_15AllToAllOptionsE",
                 CollectiveKind::kAllToAll, 1, c10d::AllToAllOptions, TensorList&, TensorList&>;
  if (AllToAll::is_there()) AllToAll::install();
}

// Only where the program has loaded LibTorch's half for CUDA.
void install_nccl() noexcept {
  install_calls<kNccl>();
  install_all_to_all<kNccl>();
  WorkWait<2>::Hooked::install(
      (std::string(kNccl) + "8WorkNCCL4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE").c_str(),
      WorkWait<2>::call);
  Gate::take_refused();
}
}  // namespace

bool install_collective_watch() noexcept {
  install_nccl();
  install_all_to_all<kGloo>();
  const bool calls = install_calls<kGloo>();
  return install_call_ends() && calls;
}

}  // namespace ddpscope
