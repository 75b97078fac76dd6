// Clipping on the CPU beside torch's own and beside what memory allows: all ways of one list take
// turns in one process, 10 turns to warm up, then medians with the 10th and 90th per cent.
//   clip_grad [threads] [turns]
#include <ddpscope/ops.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/ops/read_floor.h"

namespace {

using Tensors = std::vector<at::Tensor>;

struct List {
  const char* name;
  std::int64_t tensors;
  std::int64_t elements;  // of each
  at::ScalarType type;
};
constexpr List kLists[] = {{"1,000 x 64 float", 1000, 64, at::kFloat},
                           {"1,000 x 1,000 float", 1000, 1000, at::kFloat},
                           {"10,000 x 64 float", 10'000, 64, at::kFloat},
                           {"161 x 158,739 float", 161, 158'739, at::kFloat},
                           {"161 x 158,739 bfloat16", 161, 158'739, at::kBFloat16},
                           {"161 x 158,739 half", 161, 158'739, at::kHalf},
                           {"40 x 317,478 double", 40, 317'478, at::kDouble}};

struct Way {
  std::string name;
  std::function<void()> run;
  std::vector<double> us = {};
};

volatile std::uint64_t kept;

Tensors parameters_of(const List& list) {
  Tensors parameters;
  for (std::int64_t i = 0; i < list.tensors; ++i) {
    parameters.push_back(torch::empty({list.elements}, list.type));
    parameters.back().mutable_grad() = torch::randn({list.elements}).to(list.type);
  }
  return parameters;
}

// A limit close below the norm scales in each turn, and the gradients last as many turns.
std::vector<Way> ways_of(const List& list, const Tensors& parameters) {
  const double norm = ddpscope::clip_grad_norm_(parameters, HUGE_VAL).total_norm_value();
  const auto bytes =
      list.tensors * list.elements * static_cast<std::int64_t>(c10::elementSize(list.type));
  const auto source = torch::ones({bytes / 8}, at::kUInt64), target = torch::empty_like(source);
  const auto shrinking = std::make_shared<double>(norm);
  const auto limit = [shrinking] { return *shrinking *= 0.999; };
  return {
      {"floor: read",
       [=] { kept = read_all(source.const_data_ptr<std::uint64_t>(), source.numel() / 32 * 32); }},
      {"floor: copy",
       [=] { std::memcpy(target.mutable_data_ptr(), source.const_data_ptr(), source.nbytes()); }},
      {"norm only", [=] { ddpscope::clip_grad_norm_(parameters, HUGE_VAL); }},
      {"norm + scale", [=] { ddpscope::clip_grad_norm_(parameters, limit()); }},
      {"compat, scaled", [=] { ddpscope::compat::clip_grad_norm_(parameters, limit()); }},
      {"compat, within", [=] { ddpscope::compat::clip_grad_norm_(parameters, 2 * norm); }},
      {"torch, scaled", [=] { torch::nn::utils::clip_grad_norm_(parameters, limit()); }},
      {"torch, within", [=] { torch::nn::utils::clip_grad_norm_(parameters, 2 * norm); }},
  };
}

double microseconds(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

double at_share(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void measure(const List& list, int turns) {
  const Tensors parameters = parameters_of(list);
  std::vector<Way> ways = ways_of(list, parameters);
  for (int turn = -10; turn < turns; ++turn) {
    for (Way& way : ways) {
      const double us = microseconds(way.run);
      if (turn >= 0) way.us.push_back(us);
    }
  }
  std::printf("%s\n", list.name);
  for (const Way& way : ways) {
    std::printf("  %-16s %10.1f us [%.1f, %.1f]\n", way.name.c_str(), at_share(way.us, 0.5),
                at_share(way.us, 0.1), at_share(way.us, 0.9));
  }
  const auto median = [&](std::size_t way) { return at_share(ways[way].us, 0.5); };
  // s is read once for the norm; the scale reads and writes it, as a copy does.
  std::printf("  norm at %.0f %% of the read rate, norm + scale at %.0f %% of read + copy; ",
              100 * median(0) / median(2), 100 * (median(0) + median(1)) / median(3));
  std::printf("torch takes %.1f times as long scaled, %.1f within\n", median(6) / median(4),
              median(7) / median(5));
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  const int turns = argc > 2 ? std::atoi(argv[2]) : 60;
  std::printf("%d threads, %d turns\n", torch::get_num_threads(), turns);
  torch::manual_seed(1);
  for (const List& list : kLists) measure(list, turns);
  return 0;
}
