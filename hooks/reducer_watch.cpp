#include "hooks/reducer_watch.h"

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>

#include "hooks/capture.h"
#include "hooks/interposed.h"
#include "hooks/watched_reducers.h"

namespace ddpscope {
namespace {
using TensorList = std::vector<at::Tensor>;
using GroupPointer = c10::intrusive_ptr<c10d::ProcessGroup>;

std::string reducer_symbol(const char* rest) { return std::string("_ZN4c10d7Reducer") + rest; }

WatchedReducer::Plan plan_of(const TensorList& parameters, const GroupPointer& group, bool views) {
  WatchedReducer::Plan plan{.ranks = group ? group->getSize() : 1, .bucket_views = views};
  plan.parameters.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) {
    plan.parameters.emplace_back(parameter.getIntrusivePtr());
  }
  return plan;
}

/// Its constructors. What they take by value lies with the caller and comes by address.
template <int kWhich, class... Rest>
struct ReducerBuilt {
  using Hooked = Interposed<ReducerBuilt, void(void*, const TensorList*, Rest...)>;
  static void call(void* self, const TensorList* parameters, Rest... rest) {
    WatchedReducer::Plan plan;
    try {
      const auto given = std::tie(rest...);
      plan = plan_of(*parameters, *std::get<1>(given), std::get<5>(given));
    } catch (...) {  // no memory: this one is not watched
    }
    Hooked::original(self, parameters, rest...);
    try {
      if (!plan.parameters.empty()) watched_reducers().born(self, std::move(plan));
    } catch (...) {
    }
  }
};

/// Buckets, group, which are sparse, size of a bucket, unused detection, bucket views, names, size
/// of the first bucket, skipping of unused ones, whether Python reduces, and what later versions of
/// LibTorch take behind them.
template <int kWhich, class... Later>
using ReducerBuiltFrom =
    ReducerBuilt<kWhich, const void*, const GroupPointer*, const void*, std::int64_t, bool, bool,
                 const void*, std::int64_t, bool, bool, Later...>;

constexpr char kGiven[] =
    "ESt6vectorIN2at6TensorESaIS3_EES1_IS1_ImSaImEESaIS7_EEN3c1013intrusive_ptrINS_"
    "12ProcessGroupENSA_6detail34intrusive_target_default_null_typeISC_EEEES1_IbSaIbEElbbSt13"
    "unordered_mapIm" DDPSCOPE_MANGLED_STRING "St4hashImESt8equal_toImESaISt4pairIKmSP_EEElbb";
constexpr char kSizesOfBuckets[] = "S1_IlSaIlEE";
constexpr char kTwoSwitches[] = "bb";

template <int kWhich>
struct ReducerDied {
  using Hooked = Interposed<ReducerDied, void(void*)>;
  static void call(void* self) {
    watched_reducers().died(self);
    Hooked::original(self);
  }
};

void see_next_pass(const void* self) {
  WatchedReducer* const reducer = watched_reducers().find(self);
  if (reducer == nullptr) return;
  as_guest("reducer", [reducer](Capture& capture) { reducer->tell_next(capture); });
}

struct PrepareForward {
  using Hooked = Interposed<PrepareForward, void(void*)>;
  static void call(void* self) {
    see_next_pass(self);
    Hooked::original(self);
  }
};

// The first of them that throws where the last pass is not finished.
struct RebuildBuckets {
  using Hooked = Interposed<RebuildBuckets, bool(void*)>;
  static bool call(void* self) {
    see_next_pass(self);
    return Hooked::original(self);
  }
};

struct PrepareBackward {
  using Hooked = Interposed<PrepareBackward, void(void*, const TensorList&)>;
  static void call(void* self, const TensorList& outputs) {
    see_next_pass(self);
    Hooked::original(self, outputs);
    if (WatchedReducer* const reducer = watched_reducers().find(self)) reducer->begin_pass();
  }
};

// Once per parameter and step: without a scope, which would cost more than the work.
struct GradientCame {
  using Hooked = Interposed<GradientCame, void(void*, std::size_t)>;
  static void call(void* self, std::size_t index) {
    if (WatchedReducer* const reducer = watched_reducers().find(self)) reducer->reached();
    Hooked::original(self, index);
  }
};

struct VariableReady {
  using Hooked = Interposed<VariableReady, void(void*, std::size_t)>;
  static void call(void* self, std::size_t index) {
    if (WatchedReducer* const reducer = watched_reducers().find(self)) reducer->ready(index);
    Hooked::original(self, index);
  }
};

/// `finalize_backward`, and `reset_state`, by which a program gives a pass up.
template <int kWhich>
struct PassOver {
  using Hooked = Interposed<PassOver, void(void*)>;
  static void call(void* self) {
    Hooked::original(self);
    WatchedReducer* const reducer = watched_reducers().find(self);
    if (reducer == nullptr) return;
    const HookScope scope;
    try {
      reducer->tell_finished(scope ? &*scope : nullptr);
    } catch (...) {
      if (scope) scope->fault("reducer");
    }
  }
};

struct StaticGraph {
  using Hooked = Interposed<StaticGraph, void(void*)>;
  static void call(void* self) {
    Hooked::original(self);
    if (WatchedReducer* const reducer = watched_reducers().find(self)) reducer->becomes_static();
  }
};

template <class Hook>
bool install_at(const char* rest) noexcept {
  return Hook::Hooked::install(reducer_symbol(rest).c_str(), Hook::call);
}

/// The constructor that this LibTorch has.
template <int kWhich>
bool install_built(const char* which) noexcept {
  const auto is_there = [](const std::string& rest) {
    return Gate::slot(reducer_symbol(rest.c_str()).c_str()) != nullptr;
  };
  std::string name = which;
  name += kGiven;
  if (is_there(name)) return install_at<ReducerBuiltFrom<kWhich>>(name.c_str());
  name += kSizesOfBuckets;
  if (!is_there(name + kTwoSwitches)) {
    return install_at<ReducerBuiltFrom<kWhich, const void*>>(name.c_str());
  }
  name += kTwoSwitches;
  return install_at<ReducerBuiltFrom<kWhich, const void*, bool, bool>>(name.c_str());
}
}  // namespace

bool install_reducer_watch() noexcept {
  bool live = install_built<1>("C1");
  live &= install_built<2>("C2");
  live &= install_at<ReducerDied<1>>("D1Ev");
  live &= install_at<ReducerDied<2>>("D2Ev");
  live &= install_at<PrepareForward>("19prepare_for_forwardEv");
  live &= install_at<RebuildBuckets>("15rebuild_bucketsEv");
  live &= install_at<PrepareBackward>("20prepare_for_backwardERKSt6vectorIN2at6TensorESaIS3_EE");
  live &= install_at<GradientCame>("13autograd_hookEm");
  live &= install_at<VariableReady>("19mark_variable_readyEm");
  live &= install_at<PassOver<1>>("17finalize_backwardEv");
  live &= install_at<PassOver<2>>("11reset_stateEv");
  live &= install_at<StaticGraph>("16set_static_graphEv");
  return live;
}

void watch_reducers() noexcept {
  install_reducer_watch();
  Gate::take_refused();
}

void tell_unfinished_reducers(Capture& capture) { watched_reducers().tell_unfinished(capture); }

}  // namespace ddpscope
