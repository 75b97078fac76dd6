// The operators that write an argument, generated from the headers of the LibTorch in use.
#include <ATen/core/Generator.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>
#if __has_include(<ATen/core/Dimname.h>)  // gone in later versions of LibTorch
#include <ATen/core/Dimname.h>
#endif

#include <array>
#include <atomic>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hooks/device_waits.h"
#include "hooks/gradient_scaling.h"
#include "hooks/interposed.h"
#include "hooks/saved_watch.h"
#include "hooks/write_scope.h"
#include "view_headers.inc"
#include "writer_headers.inc"

namespace ddpscope {
namespace {
#define DDPSCOPE_WRITER(Op, name, symbol, ...) k_##Op,
enum Place : std::uint16_t {
#include "writer_list.inc"
};
#undef DDPSCOPE_WRITER

#define DDPSCOPE_WRITER(Op, name, symbol, ...) "aten::" name,
constexpr const char* kNames[] = {
#include "writer_list.inc"
};
#undef DDPSCOPE_WRITER

// By their place: the gate's slot of each writer, and whether it was called in a watched cycle.
struct WriterSlot {
  HookedSlot hooked;
  std::atomic<bool> rests{false};
};
std::array<WriterSlot, std::size(kNames)> slots;

// Inside of other operators they shape the result; programs hardly write with them.
constexpr bool allocates(std::string_view op) {
  return op.ends_with("out") || op == "aten::resize_" || op == "aten::as_strided_";
}

/// What some operators need beside the record of what they wrote: from the call to its return.
struct Nothing {
  template <class... Arguments>
  explicit Nothing(const WriteScope&, const Arguments&...) {}
};
template <bool kDivides>
struct Scaling {
  template <class... Arguments>
  explicit Scaling(const WriteScope& scope, const Arguments&... arguments) {
    if (scope.is_outermost()) see_scaling(kDivides, arguments...);
  }
};
/// The wait for a device: only copies to the host wait.
struct CopyWait : WaitScope {
  CopyWait(const WriteScope&, const at::Tensor& to, const at::Tensor& from, bool non_blocking)
      : WaitScope(WaitIn::kCopy, copy_of(to, from, non_blocking)) {}
};

template <Place kOp>
struct BesideOf {
  static constexpr bool kMultiplies = kOp == k_mul__Tensor || kOp == k_mul__Scalar ||
                                      kOp == k__foreach_mul__Tensor ||
                                      kOp == k__foreach_mul__Scalar;
  static constexpr bool kDivides = kOp == k_div__Tensor || kOp == k_div__Scalar ||
                                   kOp == k__foreach_div__Tensor || kOp == k__foreach_div__Scalar;
  using Type = std::conditional_t<kMultiplies || kDivides, Scaling<kDivides>,
                                  std::conditional_t<kOp == k_copy_, CopyWait, Nothing>>;
};

template <bool kIsWritten>
void note(WriteScope& scope, const auto& argument) noexcept {
  if constexpr (kIsWritten) scope.writes(argument);
}

/// A call of any function of one type, of which the arguments at `kWritten` are written: 1,500
/// operators have 500 of these.
template <class Beside, class Function, std::size_t... kWritten>
struct WriterCall;
template <class Beside, class Result, class... Arguments, std::size_t... kWritten>
struct WriterCall<Beside, Result(Arguments...), kWritten...> {
  static Result run(Place op, Result (*original)(Arguments...), Arguments&... arguments) {
    WriteScope scope(op);
    note_all(scope, std::index_sequence_for<Arguments...>(), arguments...);
    const Beside beside(scope, arguments...);
    if constexpr (std::is_void_v<Result>) {
      original(std::forward<Arguments>(arguments)...);
      scope.returned();
    } else {
      Result result = original(std::forward<Arguments>(arguments)...);
      scope.returned();
      return result;
    }
  }

 private:
  template <std::size_t... kAll>
  static void note_all(WriteScope& scope, std::index_sequence<kAll...>,
                       const Arguments&... arguments) noexcept {
    (note<is_written(kAll)>(scope, arguments), ...);
  }
  static constexpr bool is_written(std::size_t place) { return ((place == kWritten) || ...); }
};

/// The hook of one operator.
template <Place kOp, class Function, std::size_t... kWritten>
struct Writer;
template <Place kOp, class Result, class... Arguments, std::size_t... kWritten>
struct Writer<kOp, Result(Arguments...), kWritten...> {
  using Hooked = Interposed<Writer, Result(Arguments...)>;
  using Call = WriterCall<typename BesideOf<kOp>::Type, Result(Arguments...), kWritten...>;
  static Result call(Arguments... arguments) {
    return Call::run(kOp, Hooked::original, arguments...);
  }
  static HookRow row(const char* symbol) noexcept { return Hooked::row(symbol, call); }
};

/// An operator that returns several views of its argument.
template <class Op, class Function>
struct Views;
template <class Op, class... Arguments>
struct Views<Op, std::vector<at::Tensor>(Arguments...)> {
  using Hooked = Interposed<Views, std::vector<at::Tensor>(Arguments...)>;
  static std::vector<at::Tensor> call(Arguments... arguments) {
    std::vector<at::Tensor> views = Hooked::original(std::forward<Arguments>(arguments)...);
    if (!views.empty()) note_creation(views.front());
    return views;
  }
};
}  // namespace

HookGroup& writer_hooks() noexcept {
  static constinit HookGroup group;
  return group;
}

HookGroup* WriteScope::let_rest() const noexcept {
  WriterSlot& slot = slots[op_];
  if (slot.rests.load(std::memory_order_relaxed) || slot.rests.exchange(true)) return nullptr;
  HookGroup& group = allocates(kNames[op_]) ? cycle_hooks() : writer_hooks();
  group.add(slot.hooked);
  return &group;
}

const char* writer_name(std::uint16_t op) noexcept { return kNames[op]; }

bool install_writers() noexcept {
  bool live = true;
#define DDPSCOPE_WRITER(Op, name, symbol, ...) \
  Writer<k_##Op, at::_ops::Op::schema, __VA_ARGS__>::row(symbol),
  static const HookRow rows[] = {
#include "writer_list.inc"
  };
#undef DDPSCOPE_WRITER
  for (std::size_t op = 0; op < std::size(rows); ++op) {
    live &= rows[op].install();
    slots[op].hooked = rows[op].in_slot();
  }
#define DDPSCOPE_VIEWS(Op, name, symbol)                                          \
  live &= Views<at::_ops::Op, at::_ops::Op::schema>::Hooked::install_for_watched( \
      symbol, Views<at::_ops::Op, at::_ops::Op::schema>::call);
#include "view_list.inc"
#undef DDPSCOPE_VIEWS
  return live;
}

}  // namespace ddpscope
