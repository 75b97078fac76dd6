// One of several ranks, as RANK and WORLD_SIZE say. `rank_step steps N` trains the digits network
// on made-up data and averages each gradient by a call of its own, all of them by one call where a
// third word `flat` follows; `rank_step calls N` reduces one small tensor again and again;
// `rank_step alone N` trains without any call, and `rank_step paused N` does so with pauses that
// leave the cores to others. `rank_step gate N` trains as `steps` with all hooks of ddpscope in the
// gate in every second block of steps; `rank_step log N` switches the hooks of calls alone, and
// `rank_step delay N` in their place waits for 2 us before each call: what any delay does to the
// meeting of ranks. Prints the median and the 99th percentile of what one of them took; alone, of
// the second half, and `begun` after a quarter; of blocks for both kinds.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/gate_switch.h"
#include "benchmarks/step_times.h"
#include "samples/digits/averaging.h"
#include "samples/digits/net.h"
#include "samples/digits/optimizers.h"

namespace benchmarks {
namespace {
constexpr std::size_t kWarmUp = 96;
constexpr std::size_t kBlock = 8;
constexpr int kBatches = 16;
constexpr std::int64_t kBatch = 32;
constexpr digits::Bug kNoBug = digits::Bug::kNone;

struct Loop {
  std::size_t steps = 0;
  std::size_t tells_begun_after = 0;  ///< 0: never
  bool in_one_call = false;           ///< gradients are averaged
  std::chrono::milliseconds pause{0};
  std::chrono::nanoseconds delay{0};         ///< before each call
  std::function<void(bool)> turn = nullptr;  ///< told before each block of steps, in turn
};

/// As `digits::average_gradients`; waits before each call.
void average(const samples::Group& group, const digits::NetImpl& net,
             std::chrono::nanoseconds delay) {
  if (!group) return;
  torch::NoGradGuard guard;
  for (const auto& parameter : net.parameters()) {
    if (!parameter.grad().defined()) continue;
    const auto end = std::chrono::steady_clock::now() + delay;
    while (delay.count() > 0 && std::chrono::steady_clock::now() < end) continue;
    samples::add_over_ranks(group, parameter.grad());
    parameter.grad().div_(group->getSize());
  }
}

/// In one buffer.
void average_in_one(const samples::Group& group, const digits::NetImpl& net) {
  if (!group) return;
  torch::NoGradGuard guard;
  std::vector<torch::Tensor> parts;
  for (const auto& parameter : net.parameters()) {
    if (parameter.grad().defined()) parts.push_back(parameter.grad().reshape(-1));
  }
  const torch::Tensor flat = torch::cat(parts);
  samples::add_over_ranks(group, flat);
  flat.div_(group->getSize());
  std::int64_t at = 0;
  for (const torch::Tensor& part : parts) {
    part.copy_(flat.narrow(0, at, part.numel()));
    at += part.numel();
  }
}

double train(const samples::World& world, const samples::Group& group, StepTimes& times,
             const Loop& loop) {
  torch::manual_seed(world.rank + 1);
  digits::Net net(kNoBug);
  ddpscope::attach_diagnostics(net);
  digits::broadcast_state(group, *net, kNoBug);
  digits::Optimizers optimizers = make_optimizers(net, world.rank, kNoBug);
  std::vector<std::pair<torch::Tensor, torch::Tensor>> batches;
  for (int i = 0; i < kBatches; ++i) {
    batches.emplace_back(torch::randn({kBatch, 1, 28, 28}), torch::randint(10, {kBatch}));
  }
  double sum = 0;
  times.mark();
  for (std::size_t i = 0; i < loop.steps; ++i) {
    if (loop.turn && i >= kWarmUp && i % kBlock == 0) loop.turn(i / kBlock % 2 == 1);
    const auto& [images, labels] = batches[i % batches.size()];
    clear_gradients(net, optimizers, kNoBug);
    const digits::Outputs outputs = net(images);
    torch::Tensor loss = torch::cross_entropy_loss(outputs.logits, labels);
    loss = loss + 0.3 * torch::cross_entropy_loss(outputs.aux_logits, labels);
    loss.backward();
    loop.in_one_call ? average_in_one(group, *net) : average(group, *net, loop.delay);
    for (const auto& optimizer : optimizers) optimizer->step();
    sum += loss.item<double>();
    if (loop.pause.count() > 0) std::this_thread::sleep_for(loop.pause);
    times.mark();
    if (i + 1 != loop.tells_begun_after) continue;
    std::puts("begun");
    std::fflush(stdout);
  }
  return sum;
}

double reduce(const samples::Group& group, StepTimes& times, std::size_t calls) {
  torch::nn::Linear layer(4, 4);
  ddpscope::attach_diagnostics(layer);
  const torch::Tensor one = torch::zeros({16});
  times.mark();
  for (std::size_t i = 0; i < calls; ++i) {
    samples::add_over_ranks(group, one);
    times.mark();
  }
  return one.sum().item<double>();
}

/// Each rank for itself.
int run_alone(const samples::World& world, std::size_t steps, std::chrono::milliseconds pause) {
  StepTimes times(steps);
  const double sum =
      train(world, {}, times, {.steps = steps, .tells_begun_after = steps / 4, .pause = pause});
  times.print_tail("alone", steps / 2, steps);
  std::printf("sum %.17g\n", sum);
  std::fflush(stdout);
  return 0;
}

/// Steps with and without something in turn.
int run_turns(const samples::World& world, const samples::Group& group, const Loop& base,
              const std::string& what) {
  Loop loop = base;
  GateSwitch gate(DDPSCOPE_GATE_NAMES, what == "log" ? "_ZN4c10d" : "");
  loop.turn = [&](bool on) {
    if (what == "delay") {
      loop.delay = std::chrono::nanoseconds(on ? 2000 : 0);
    } else if (what != "nothing") {
      on ? gate.turn_on() : gate.turn_off();
    }
  };
  StepTimes times(loop.steps);
  const double sum = train(world, group, times, loop);
  gate.turn_on();
  times.print_turns(kWarmUp, kBlock);
  std::printf("sum %.17g\n", sum);
  return 0;
}

int run(const std::string& what, std::size_t count, bool in_one_call) {
  torch::set_num_threads(1);
  const samples::World world = samples::world_from_environment();
  const bool is_alone = what == "alone" || what == "paused";
  const samples::Group group = is_alone ? samples::Group() : samples::connect(world);
  const bool has_turns = what == "gate" || what == "log" || what == "delay" || what == "nothing";
  const bool is_together = group && (has_turns || what == "steps" || what == "calls");
  if (count <= kWarmUp || (!is_alone && !is_together)) {
    std::fprintf(stderr,
                 "usage: RANK=r WORLD_SIZE=n rank_step "
                 "steps|calls|gate|log|delay|nothing|alone|paused NUMBER [flat], above "
                 "%zu\n",
                 kWarmUp);
    return 2;
  }
  if (is_alone) {
    return run_alone(world, count, std::chrono::milliseconds(what == "paused" ? 200 : 0));
  }
  const Loop loop{.steps = count, .in_one_call = in_one_call};
  if (has_turns) return run_turns(world, group, loop, what);
  StepTimes times(count);
  const double sum =
      what == "steps" ? train(world, group, times, loop) : reduce(group, times, count);
  times.print_tail(what.c_str(), kWarmUp, count);
  std::printf("sum %.17g\n", sum);  // equal with and without ddpscope
  return 0;
}
}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) try {
  const bool in_one_call = argc > 3 && std::string(argv[3]) == "flat";
  return benchmarks::run(argc > 2 ? argv[1] : "", argc > 2 ? std::stoul(argv[2]) : 0, in_one_call);
} catch (const std::exception& error) {
  std::fprintf(stderr, "rank_step: %s\n", error.what());
  return 1;
}
