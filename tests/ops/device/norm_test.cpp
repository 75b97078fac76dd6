#include "ops/batch_norm/device.h"
#include "ops/batch_norm/layout.h"
#include "ops/batch_norm/mixed_up.h"
#include "tests/ops/batch_norm/norm_case.h"
#include "tests/ops/device/test_device.h"

namespace ddpscope::test::norm_test {
namespace {
using namespace batch_norm;  // NOLINT

CallPtr make_call(const NormCase& norm, const CommunicatorPtr& group, const std::string& layer) {
  auto call = c10::make_intrusive<Call>();
  call->layer = layer;
  if (group->size() == 1) return call;
  call->group = group;
  call->number = group->count_call(layer);
  call->gathers = norm.exchange == ExchangeMode::kGather;
  return call;
}

NormOutcome run_rank(const NormCase& norm, std::size_t rank, const CommunicatorPtr& group,
                     const std::string& layer = "norm") {
  const at::NoGradGuard no_grad;
  const device::Place& place = test_place();
  const at::Tensor x = without_gaps(norm.inputs[rank]);
  const CallPtr call = make_call(norm, group, layer);
  NormOutcome outcome;
  ForwardOnDevice forward = {.eps = norm.eps};
  if (norm.tracks) {
    outcome.running_mean = torch::zeros({x.size(1)}, norm.running_dtype);
    outcome.running_var = torch::ones({x.size(1)}, norm.running_dtype);
    outcome.count = torch::zeros({}, at::kLong);
    forward.running = {outcome.running_mean, outcome.running_var, outcome.count,
                       norm.momentum.value_or(NAN)};
  }
  measure_on_device(x, *call, place);
  outcome.y = normalize_on_device({x, norm.weight, {}}, norm.bias, forward, *call, place);
  const at::Tensor dy = in_layout(norm.gradients[rank], shape_of(x).layout);
  const Gradients gradients =
      backward_on_device({x, norm.weight, call->statistics}, dy, *call, place, true);
  outcome.dx = gradients.input;
  if (norm.weight.defined()) outcome.dweight = gradients.weight;
  if (norm.bias.defined()) outcome.dbias = gradients.bias;
  return outcome;
}

std::vector<NormOutcome> run_on_device(const NormCase& norm) {
  return on_ranks(static_cast<int>(norm.inputs.size()),
                  [&](int rank, const CommunicatorPtr& group) {
                    return run_rank(norm, static_cast<std::size_t>(rank), group);
                  });
}

void check_on_device(const NormCase& norm) { check_outcomes(norm, run_on_device(norm)); }

constexpr at::ScalarType kDtypes[] = {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};

}  // namespace

TEST_CASE("A device normalizes every shape, layout and dtype within the limits", "[norm]") {
  torch::manual_seed(1);
  const std::vector<std::int64_t> shape = GENERATE(
      std::vector<std::int64_t>{5}, std::vector<std::int64_t>{64}, std::vector<std::int64_t>{3, 49},
      std::vector<std::int64_t>{33, 7, 7}, std::vector<std::int64_t>{16, 8, 8},
      std::vector<std::int64_t>{1, 2, 3, 4}, std::vector<std::int64_t>{257, 2, 2});
  for (const auto dtype : kDtypes) {
    for (const bool channels_last : {false, true}) {
      CAPTURE(shape, dtype, channels_last);
      check_on_device(make_case({.samples = {6},
                                 .shape = shape,
                                 .dtype = dtype,
                                 .channels_last = channels_last,
                                 .affine = shape[0] != 3}));
    }
  }
}

TEST_CASE("Tiles of a device join to whole channels", "[norm]") {
  torch::manual_seed(2);
  // Planes that end inside of a tile, tiles that end inside of a plane, and many tiles of rows.
  const std::vector<std::vector<std::int64_t>> shapes = {
      {2, 150, 150}, {3, 4096}, {2, 9}, {64, 25, 25}};
  auto dtype = at::kHalf;
  for (const auto& shape : shapes) {
    for (const bool channels_last : {false, true}) {
      CAPTURE(shape, dtype, channels_last);
      const std::int64_t samples = shape.back() == 9 ? 6000 : 9;
      check_on_device(make_case(
          {.samples = {samples}, .shape = shape, .dtype = dtype, .channels_last = channels_last}));
      dtype = dtype == at::kHalf ? at::kDouble : at::kHalf;
    }
    dtype = dtype == at::kHalf ? at::kDouble : at::kHalf;  // the other layout's
  }
}

TEST_CASE("A block of a device measures some channels where they are many and small", "[norm]") {
  torch::manual_seed(9);
  for (const auto& shape :
       {std::vector<std::int64_t>{520, 3, 3}, std::vector<std::int64_t>{1027, 8}}) {
    for (const auto dtype : {at::kBFloat16, at::kFloat}) {
      CAPTURE(shape, dtype);
      check_on_device(make_case({.samples = {5}, .shape = shape, .dtype = dtype}));
    }
  }
}

TEST_CASE("Neither an outlier nor equal values cost a device the variance", "[norm]") {
  torch::manual_seed(10);
  for (const bool channels_last : {false, true}) {
    for (const std::int64_t place : {0, 31, 64, 143}) {  // the first and the last of a plane
      CAPTURE(channels_last, place);
      NormCase norm =
          make_case({.samples = {40}, .shape = {8, 12, 12}, .channels_last = channels_last});
      norm.inputs[0].select(1, 3).select(0, 0).view(-1)[place] = 1e6;
      norm.inputs[0].select(1, 5).fill_(0.7);
      norm.inputs[0].select(1, 6).mul_(1e-6);
      check_on_device(norm);
    }
  }
}

TEST_CASE("A constant channel without eps becomes its bias on a device", "[norm]") {
  NormCase norm = make_case({.samples = {5}, .shape = {3, 4, 4}});
  norm.inputs[0].select(1, 1).fill_(2);
  norm.eps = 0;
  const auto found = run_on_device(norm), expected = oracle_of(norm);
  CHECK(error_of(found[0].y, expected[0].y) < 2e-6);
  CHECK(error_of(found[0].dx, expected[0].dx) < 1e-5);
}

TEST_CASE("Ranks on devices with unequal and empty batches share their statistics", "[norm]") {
  torch::manual_seed(3);
  const auto exchange = GENERATE(ExchangeMode::kSum, ExchangeMode::kGather);
  for (const auto& samples :
       {std::vector<std::int64_t>{4, 1, 7}, std::vector<std::int64_t>{0, 3}}) {
    for (const bool channels_last : {false, true}) {
      NormCase norm =
          make_case({.samples = samples, .shape = {33, 3, 3}, .channels_last = channels_last});
      norm.exchange = exchange;
      check_on_device(norm);
      norm.momentum = std::nullopt;
      check_on_device(norm);
    }
  }
}

TEST_CASE("A device keeps what a large mean leaves of a deviation", "[norm]") {
  torch::manual_seed(4);
  for (const bool channels_last : {false, true}) {
    NormCase norm = make_case({.samples = {40},
                               .shape = {8, 12, 12},
                               .channels_last = channels_last,
                               .mean = 1e4,
                               .deviation = 1});
    norm.tracks = false;
    const auto found = run_on_device(norm), expected = oracle_of(norm);
    CHECK(error_of(found[0].y, expected[0].y) < 4e-6);
  }
}

TEST_CASE("A batch may begin anywhere in memory", "[norm]") {
  torch::manual_seed(7);
  for (const auto dtype : kDtypes) {
    NormCase norm = make_case({.samples = {6}, .shape = {16, 4, 4}, .dtype = dtype});
    const auto moved = torch::empty({norm.inputs[0].numel() + 1}, dtype).slice(0, 1);
    norm.inputs[0] = moved.copy_(norm.inputs[0].flatten()).view(norm.inputs[0].sizes());
    check_on_device(norm);
    std::swap(norm.inputs[0], norm.gradients[0]);
    check_on_device(norm);
  }
}

TEST_CASE("Running values normalize in evaluation, and are constants of the gradient", "[norm]") {
  torch::manual_seed(8);
  const device::Place& place = test_place();
  const NormCase norm = make_case({.samples = {4}, .shape = {24, 5, 5}});
  const at::Tensor mean = torch::randn({24}), variance = torch::rand({24}) + 0.5;
  const auto x = norm.inputs[0].clone().requires_grad_();
  const auto expected =
      torch::batch_norm(x, norm.weight, norm.bias, mean, variance, false, 0.1, norm.eps, false);
  expected.backward(norm.gradients[0]);

  const at::NoGradGuard no_grad;
  const auto call = c10::make_intrusive<Call>();
  keep_constants(
      torch::stack({mean.to(at::kDouble), (variance.to(at::kDouble) + norm.eps).rsqrt()}), *call);
  const auto y =
      normalize_on_device({norm.inputs[0], norm.weight, {}}, norm.bias, {}, *call, place);
  const Gradients gradients = backward_on_device({norm.inputs[0], norm.weight, call->statistics},
                                                 norm.gradients[0], *call, place, true);
  CHECK(error_of(y, expected.detach().to(at::kDouble)) < 2e-6);
  CHECK(error_of(gradients.input, x.grad().to(at::kDouble)) < 1e-5);
}

TEST_CASE("A NaN stays in its channel on a device", "[norm]") {
  for (const bool channels_last : {false, true}) {
    NormCase norm =
        make_case({.samples = {4}, .shape = {16, 4, 4}, .channels_last = channels_last});
    norm.inputs[0][1][5][2][3] = NAN;
    const NormOutcome found = run_on_device(norm)[0];
    const auto bad = found.y.isnan().movedim(1, 0).reshape({16, -1}).sum(1);
    CHECK(bad[5].item<std::int64_t>() == 64);
    CHECK(bad.sum().item<std::int64_t>() == 64);
    CHECK(found.dx.isnan().sum().item<std::int64_t>() == 64);
  }
}

TEST_CASE("Running values of a device are moved once, in any dtype, and by no empty batch",
          "[norm]") {
  torch::manual_seed(5);
  NormCase norm = make_case({.samples = {5}, .shape = {40}, .dtype = at::kHalf});
  norm.running_dtype = at::kHalf;
  const NormOutcome half = run_on_device(norm)[0];
  const NormOutcome exact = oracle_of(norm)[0];
  CHECK(error_of(half.running_mean, exact.running_mean) < 1e-3);
  CHECK(error_of(half.running_var, exact.running_var) < 1e-3);
  CHECK(half.running_mean._version() > 0);

  norm = make_case({.samples = {0, 0}, .shape = {40}});
  for (const NormOutcome& rank : run_on_device(norm)) {
    CHECK(rank.count.item<std::int64_t>() == 0);
    CHECK(torch::equal(rank.running_var, torch::ones({40})));
    CHECK(rank.dweight.abs().max().item<double>() == 0);
  }
}

TEST_CASE("Running values of a device may have gaps", "[norm]") {
  torch::manual_seed(11);
  const at::NoGradGuard no_grad;
  const NormCase norm = make_case({.samples = {5}, .shape = {24}});
  const auto run = [&norm](const at::Tensor& mean, const at::Tensor& variance) {
    const auto call = c10::make_intrusive<Call>();
    measure_on_device(norm.inputs[0], *call, test_place());
    normalize_on_device({norm.inputs[0], norm.weight, {}}, norm.bias,
                        {.eps = norm.eps, .running = {mean, variance, {}, 0.1}}, *call,
                        test_place());
  };
  const at::Tensor mean = torch::zeros({24}), variance = torch::ones({24});
  run(mean, variance);
  const at::Tensor both = torch::stack({torch::zeros({24}), torch::ones({24})}, 1);
  run(both.select(1, 0), both.select(1, 1));
  CHECK(torch::equal(both, torch::stack({mean, variance}, 1)));
  CHECK(mean.abs().max().item<double>() > 0);
  CHECK(mean._version() > 0);
}

TEST_CASE("One value over all ranks gives the bias and keeps the variance on a device", "[norm]") {
  const NormCase norm = make_case({.samples = {1, 0}, .shape = {6}});
  const auto found = run_on_device(norm);
  CHECK(torch::equal(found[0].y[0], norm.bias));
  CHECK(torch::equal(found[0].running_var, torch::ones({6})));
}

TEST_CASE("The bits of a device do not depend on the order of its blocks", "[norm]") {
  torch::manual_seed(6);
  for (const bool channels_last : {false, true}) {
    const NormCase norm =
        make_case({.samples = {30}, .shape = {4, 30, 30}, .channels_last = channels_last});
    const NormOutcome first = run_on_device(norm)[0];
    for (int i = 0; i < 3; ++i) {
      const NormOutcome again = run_on_device(norm)[0];
      CHECK(same_bits(again.y, first.y));
      CHECK(same_bits(again.dx, first.dx));
      CHECK(same_bits(again.dweight, first.dweight));
    }
  }
}

TEST_CASE("Ranks at different layers are told by the next call on a device", "[norm]") {
  const NormCase norm = make_case({.samples = {2, 2}, .shape = {3}});
  const auto faults = try_on_ranks(2, [&](int rank, const CommunicatorPtr& group) {
    run_rank(norm, static_cast<std::size_t>(rank), group, rank == 0 ? "stem" : "head");
  });
  // The ranks are threads of one process here: one of them is told, and the other left alone.
  const std::string text = faults[0] + faults[1];
  CHECK(text.find(", call 1, forward over ") != std::string::npos);
  CHECK(text.find("another rank was at another layer, call or phase") != std::string::npos);
  try {
    throw_if_mixed_up();
  } catch (const c10::Error&) {  // of the other rank
  }
  CHECK_NOTHROW(throw_if_mixed_up());
}

}  // namespace ddpscope::test::norm_test
