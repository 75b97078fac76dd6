// Averages that are right and not exact, or of ranks that bring nothing: in bfloat16, compressed on
// the way, and beside a rank whose gradients are zero.
#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::narrow_averages_test {
namespace {
constexpr int kSteps = 100;  // the last of them with hooks that rest

using Average = void (*)(const Group&, const Place&, at::Tensor gradient);

void average_as_it_is(const Group& group, const Place& place, at::Tensor gradient) {
  all_reduce(group, gradient);
  gradient.div_(place.ranks);
}

void average_as(at::ScalarType narrow, const Group& group, const Place& place,
                const at::Tensor& gradient) {
  const at::Tensor sent = gradient.to(narrow).div_(place.ranks);
  all_reduce(group, sent);
  gradient.copy_(sent);
}

struct How {
  at::ScalarType dtype = torch::kFloat;
  Average average = average_as_it_is;
  bool last_brings_zeros = false;
  bool flips_a_bit = false;
};

std::function<int(const Place&)> program(const How& how) {
  return [how](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    net->to(how.dtype);
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);  // data of its own
    const bool brings_zeros = how.last_brings_zeros && place.rank == place.ranks - 1;
    for (int step = 1; step <= kSteps; ++step) {
      optimizer.zero_grad();
      const at::Tensor batch = torch::randn({4, 8}).to(how.dtype);
      (net(batch).square().mean() * (brings_zeros ? 0 : 1)).backward();
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& parameter : net->parameters()) {
        how.average(group, place, parameter.grad());
      }
      if (how.flips_a_bit && place.rank == 1 && step == 20) {
        net->first->weight.mutable_grad()[0][0].mul_(1.125);
      }
      optimizer.step();
    }
    return 0;
  };
}

/// Nothing but notes, on so many ranks.
void expect_silence(int count, const How& how) {
  CHECK(Ranks(count, program(how)).exit_codes() == std::vector<int>(count, 0));
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.code == 0);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

constexpr Average kThroughHalf = [](const Group& group, const Place& place, at::Tensor gradient) {
  average_as(torch::kHalf, group, place, gradient);
};
constexpr Average kThroughBfloat = [](const Group& group, const Place& place, at::Tensor gradient) {
  average_as(torch::kBFloat16, group, place, gradient);
};
}  // namespace

TEST_CASE("Two ranks that train in bfloat16 are silent") {
  expect_silence(2, {.dtype = torch::kBFloat16});
}

TEST_CASE("Four ranks that train in bfloat16 are silent") {
  expect_silence(4, {.dtype = torch::kBFloat16});
}

TEST_CASE("Gradients that two ranks send in float16 are silent") {
  expect_silence(2, {.average = kThroughHalf});
}

TEST_CASE("Gradients that four ranks send in bfloat16 are silent") {
  expect_silence(4, {.average = kThroughBfloat});
}

TEST_CASE("A rank of two whose gradients are zero is silent") {
  expect_silence(2, {.last_brings_zeros = true});
}

TEST_CASE("A rank of four whose gradients are zero is silent") {
  expect_silence(4, {.last_brings_zeros = true});
}

TEST_CASE("One element of a rank that changes after an average in bfloat16 is found") {
  CHECK(Ranks(2, program({.dtype = torch::kBFloat16, .flips_a_bit = true})).exit_codes() ==
        std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says(
      "ranks 0-1 step 20 first.weight: error: 1 of 4 sampled gradients left the reduction"));
  CHECK(merged.says("(not_linear) [grad-reduced-wrong-scale]"));
}

}  // namespace ddpscope::test::narrow_averages_test
