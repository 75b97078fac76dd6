// The operators that read several tensors, generated from the headers of the LibTorch in use.
#include "hooks/readers.h"

#include <ATen/core/Generator.h>
#include <c10/core/SymIntArrayRef.h>
#if __has_include(<ATen/core/Dimname.h>)  // gone in later versions of LibTorch
#include <ATen/core/Dimname.h>
#endif

#include <algorithm>
#include <array>
#include <string_view>

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
  static HookRow row(const char* symbol) noexcept { return Hooked::row(symbol, call); }
};
}  // namespace

namespace {
// What a model's first layer may be, beside convolutions and embeddings.
constexpr std::array<std::string_view, 13> kFirstOfModels = {
    "addmm",      "bilinear", "bmm", "embedding_bag",  "gru_input",      "layer_norm", "linear",
    "lstm_input", "matmul",   "mm",  "rnn_relu_input", "rnn_tanh_input", "tensordot"};

bool is_first_of_models(std::string_view op) {
  return std::ranges::find(kFirstOfModels, op) != kFirstOfModels.end();
}

bool install_where(bool (*wanted)(std::string_view op)) {
  struct Row {
    const char* op;
    HookRow hook;
  };
#define DDPSCOPE_READER(Op, symbol) \
  Row{#Op, Reader<at::_ops::Op, at::_ops::Op::schema>::row(symbol)},
  static const Row rows[] = {
#include "reader_list.inc"
  };
#undef DDPSCOPE_READER
  bool live = true;
  for (const Row& row : rows) {
    if (wanted(row.op)) live &= row.hook.install_in(operator_hooks());
  }
  return live;
}
}  // namespace

bool install_readers() noexcept {
  return install_where([](std::string_view) { return true; });
}

bool install_first_readers() noexcept { return install_where(is_first_of_models); }

}  // namespace ddpscope
