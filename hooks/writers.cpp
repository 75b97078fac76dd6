// The operators that write an argument, generated from the headers of the LibTorch in use.
#include <ATen/core/Dimname.h>
#include <ATen/core/Generator.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <array>
#include <atomic>
#include <iterator>
#include <string_view>
#include <tuple>
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

constexpr bool multiplies(Place op) {
  return op == k_mul__Tensor || op == k_mul__Scalar || op == k__foreach_mul__Tensor ||
         op == k__foreach_mul__Scalar;
}
constexpr bool divides(Place op) {
  return op == k_div__Tensor || op == k_div__Scalar || op == k__foreach_div__Tensor ||
         op == k__foreach_div__Scalar;
}

/// The wait of a call for a device: only copies to the host wait.
template <Place kOp>
struct WaitOf {
  template <class... Arguments>
  explicit WaitOf(const Arguments&...) {}
};
template <>
struct WaitOf<k_copy_> : WaitScope {
  WaitOf(const at::Tensor& to, const at::Tensor& from, bool non_blocking)
      : WaitScope(WaitIn::kCopy, copy_of(to, from, non_blocking)) {}
};

/// The function `Function` of LibTorch, of which the arguments at `kWritten` are written.
template <Place kOp, class Function, std::size_t... kWritten>
struct Writer;
template <Place kOp, class Result, class... Arguments, std::size_t... kWritten>
struct Writer<kOp, Result(Arguments...), kWritten...> {
  using Hooked = Interposed<Writer, Result(Arguments...)>;
  static Result call(Arguments... arguments) {
    WriteScope scope(kOp);
    const auto all = std::tie(arguments...);
    (scope.writes(std::get<kWritten>(all)), ...);
    if constexpr (multiplies(kOp) || divides(kOp)) {
      if (scope.is_outermost()) see_scaling(divides(kOp), arguments...);
    }
    const WaitOf<kOp> wait(arguments...);
    if constexpr (std::is_void_v<Result>) {
      Hooked::original(std::forward<Arguments>(arguments)...);
      scope.returned();
    } else {
      Result result = Hooked::original(std::forward<Arguments>(arguments)...);
      scope.returned();
      return result;
    }
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
