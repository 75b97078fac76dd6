#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <benchmark/benchmark.h>
#include <execinfo.h>
#include <torch/csrc/profiler/unwind/unwind.h>
#include <unwind.h>

#include <array>
#include <functional>
#include <memory>

#include "stacks/capture.h"
#include "stacks/stack_table.h"
#include "stacks/unwind_rule.h"

// What one stack costs: below functions that are all different, and inside an operator of LibTorch.
namespace {

using Frames = std::array<void*, 128>;
using Body = std::function<std::size_t()>;

std::size_t capture(Frames& frames) { return ddpscope::capture_stack(frames).frames; }

std::size_t by_backtrace(Frames& frames) {
  return std::size_t(backtrace(frames.data(), int(frames.size())));
}

std::size_t by_torch(Frames& frames) {
  const std::vector<void*> found = torch::unwind::unwind();
  std::copy_n(found.begin(), std::min(found.size(), frames.size()), frames.begin());
  return found.size();
}

struct Unwound {
  Frames* frames;
  std::size_t count;
};

std::size_t by_runtime(Frames& frames) {
  Unwound all{&frames, 0};
  const auto add = [](_Unwind_Context* context, void* into) {
    auto& found = *static_cast<Unwound*>(into);
    (*found.frames)[found.count++] = reinterpret_cast<void*>(_Unwind_GetIP(context));
    return _URC_NO_REASON;
  };
  _Unwind_Backtrace(add, &all);
  return all.count;
}

/// As if no address had been seen before: every rule is read anew.
std::size_t without_cache(Frames& frames) {
  const std::size_t count = capture(frames);
  std::uint64_t unloads = 0;
  for (std::size_t i = 0; i < count; ++i) {
    benchmark::DoNotOptimize(ddpscope::read_unwind_rule(std::uintptr_t(frames[i]), &unloads));
  }
  return count;
}

std::size_t and_intern(Frames& frames) {
  static ddpscope::StackTable table;
  const std::size_t count = capture(frames);
  benchmark::DoNotOptimize(table.intern({frames.data(), count}));
  return count;
}

template <int kDepth>
[[gnu::noinline]] std::size_t below(int wanted, const Body& body) {
  volatile char room[kDepth % 5 * 16 + 8] = {};
  if constexpr (kDepth > 0) {
    if (wanted > 0) return below<kDepth - 1>(wanted - 1, body) + std::size_t(room[0]);
  }
  return body() + std::size_t(room[0]);
}

using Way = std::size_t (*)(Frames&);

std::size_t repeat(benchmark::State& state, Way way) {
  Frames frames{};
  std::size_t count = 0;
  for (auto _ : state) {
    count = way(frames);
    benchmark::DoNotOptimize(frames);
  }
  state.counters["frames"] = double(count);
  return count;
}

void in_functions(benchmark::State& state, Way way) {
  below<50>(int(state.range(0)), [&] { return repeat(state, way); });
}

Body in_callback;

std::unique_ptr<at::ObserverContext> call_body(const at::RecordFunction&) {
  if (const Body body = std::exchange(in_callback, nullptr)) body();
  return nullptr;
}

void in_operator(benchmark::State& state, Way way) {
  const at::Tensor input = at::ones({4}).requires_grad_();
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(call_body));
  in_callback = [&] { return repeat(state, way); };
  below<50>(int(state.range(0)), [&] { return std::size_t(input.mul(2).dim()); });
  at::removeCallback(handle);
}

void add(const std::string& name, Way way) {
  benchmark::RegisterBenchmark((name + "/functions").c_str(), in_functions, way)
      ->Arg(2)
      ->Arg(12)
      ->Arg(32);
  benchmark::RegisterBenchmark((name + "/operator").c_str(), in_operator, way)->Arg(2);
}

}  // namespace

int main(int argc, char** argv) {
  add("capture", capture);
  add("capture_and_intern", and_intern);
  add("capture_without_cache", without_cache);
  add("torch_unwind", by_torch);
  add("Unwind_Backtrace", by_runtime);
  add("backtrace", by_backtrace);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
