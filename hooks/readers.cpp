// The operators that read several tensors, generated from the headers of the LibTorch in use.
#include "hooks/readers.h"

#include <ATen/core/Dimname.h>
#include <ATen/core/Generator.h>
#include <c10/core/SymIntArrayRef.h>

#include "hooks/inferred_calls.h"
#include "hooks/interposed.h"
#include "reader_headers.inc"

namespace ddpscope {
namespace {
template <class Op, class Function>
struct Reader;
template <class Op, class Result, class... Arguments>
struct Reader<Op, Result(Arguments...)> {
  using Hooked = Interposed<Reader, Result(Arguments...)>;
  static Result call(Arguments... arguments) {
    const auto run = [&] { return Hooked::original(std::forward<Arguments>(arguments)...); };
    return run_operator(Op::name, run, arguments...);
  }
};
}  // namespace

bool install_readers() noexcept {
  bool live = true;
#define DDPSCOPE_READER(Op, symbol)                                    \
  live &= Reader<at::_ops::Op, at::_ops::Op::schema>::Hooked::install( \
      symbol, Reader<at::_ops::Op, at::_ops::Op::schema>::call);
#include "reader_list.inc"
#undef DDPSCOPE_READER
  return live;
}

}  // namespace ddpscope
