#include <ATen/Parallel.h>
#include <time.h>

#include <functional>
#include <limits>

#include "ops/batch_norm/cpu.h"
#include "ops/batch_norm/cpu/processor.h"
#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::determinism_test {
namespace {
using batch_norm::Kernels;
using batch_norm::Processor;

std::vector<at::Tensor> run(const NormCase& norm) {
  const auto x = norm.inputs[0].detach().requires_grad_();
  const auto weight = norm.weight.clone().requires_grad_();
  const auto variance = torch::ones({x.size(1)}, at::kDouble);
  const auto y = sync_batch_norm(x, torch::zeros({x.size(1)}, at::kDouble), variance,
                                 SyncBatchNormFuncOptions().weight(weight).training(true));
  y.backward(norm.gradients[0]);
  return {y.detach(), x.grad(), weight.grad(), variance};
}

batch_norm::ScalarKind kind_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kHalf:
      return batch_norm::ScalarKind::kHalf;
    case at::kBFloat16:
      return batch_norm::ScalarKind::kBFloat16;
    case at::kFloat:
      return batch_norm::ScalarKind::kFloat;
    default:
      return batch_norm::ScalarKind::kDouble;
  }
}

/// What the kernels of one path write: two tensors, and four sums per channel.
struct Written {
  explicit Written(const at::Tensor& x)
      : y(torch::zeros_like(x)),
        dx(torch::zeros_like(x)),
        sums(torch::zeros({4, x.size(1)}, at::kDouble)) {}
  void write_sums(batch_norm::SumOperands& operands, std::int64_t first) const {
    operands.first = sums.mutable_data_ptr<double>() + first * sums.size(1);
    operands.second = operands.first + sums.size(1);
  }
  at::Tensor y, dx, sums;
};

struct AllOperands {
  batch_norm::SumOperands sums;
  batch_norm::MapOperands maps;
};

void run_rows(const Kernels& kernels, AllOperands operands, const Written& to) {
  const batch_norm::Band band = {
      .stride = to.y.size(1), .rows = to.y.size(0), .channels = to.y.size(1)};
  to.write_sums(operands.sums, 0);
  kernels.measure_band(operands.sums, band);
  to.write_sums(operands.sums, 2);
  kernels.reduce_band(operands.sums, band);
  operands.maps.out = to.y.mutable_data_ptr();
  kernels.normalize_band(operands.maps, band);
  operands.maps.out = to.dx.mutable_data_ptr();
  kernels.grad_input_band(operands.maps, band);
}

template <std::int64_t kPlane>
void run_planes(const Kernels& kernels, AllOperands operands, const Written& to) {
  const batch_norm::ChannelRun run = {
      .plane = kPlane, .stride = 2 * kPlane, .begin = 7, .end = 5990};
  const batch_norm::Stretch stretch = {.plane = kPlane, .channels = 2, .begin = 3, .end = 3977};
  to.write_sums(operands.sums, 0);
  kernels.measure_run(operands.sums, run);
  to.write_sums(operands.sums, 2);
  kernels.reduce_run(operands.sums, run);
  operands.maps.out = to.y.mutable_data_ptr();
  kernels.normalize_stretch(operands.maps, stretch);
  operands.maps.out = to.dx.mutable_data_ptr();
  kernels.grad_input_stretch(operands.maps, stretch);
}

enum class Told { kAll, kMapped };

at::Tensor written(Processor path, const at::Tensor& x, const at::Tensor& dy,
                   Told told = Told::kAll) {
  const Kernels& kernels = batch_norm::kernels_of(path, kind_of(x));
  const auto means = torch::linspace(0.1, 1.3, x.size(1), at::kDouble);
  const auto terms = x.scalar_type() == at::kDouble ? means : means.to(at::kFloat);
  const void* const term = terms.const_data_ptr();
  const AllOperands operands = {.sums = {.x = x.const_data_ptr(),
                                         .dy = dy.const_data_ptr(),
                                         .mean = means.const_data_ptr<double>()},
                                .maps = {.x = x.const_data_ptr(),
                                         .dy = dy.const_data_ptr(),
                                         .mean = term,
                                         .scale = term,
                                         .shift = term,
                                         .slope = term}};
  std::vector<at::Tensor> all;
  for (const auto run :
       {run_rows, run_planes<100>, run_planes<49>, run_planes<25>, run_planes<600>}) {
    const Written found(x);
    run(kernels, operands, found);
    for (const at::Tensor& tensor : {found.y, found.dx, found.sums}) {
      const bool is_mapped = !tensor.is_same(found.sums);
      if (is_mapped || told == Told::kAll) all.push_back(tensor.view(-1).view(at::kByte));
    }
  }
  return torch::cat(all);
}

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

TEST_CASE("the bits do not depend on the number of threads", "[norm]") {
  const auto channels_last = GENERATE(false, true);
  const auto dtype = GENERATE(at::kBFloat16, at::kFloat);
  torch::manual_seed(1);
  const auto norm = make_case(
      {.samples = {40}, .shape = {37, 30, 31}, .dtype = dtype, .channels_last = channels_last});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto expected = run(norm);
  for (const int threads : {2, 4}) {
    at::set_num_threads(threads);
    const auto found = run(norm);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
  }
  at::set_num_threads(before);
}

TEST_CASE("a hundred runs give the same bits", "[norm]") {
  torch::manual_seed(2);
  const auto norm = make_case({.samples = {8}, .shape = {40, 9, 9}});
  const auto expected = run(norm);
  for (int i = 0; i < 100; ++i) {
    const auto found = run(norm);
    for (std::size_t k = 0; k < found.size(); ++k) REQUIRE(same_bits(found[k], expected[k]));
  }
}

TEST_CASE("every path of the processor gives the same bits", "[norm]") {
  const auto dtype = GENERATE(at::kHalf, at::kBFloat16, at::kFloat, at::kDouble);
  const auto channels = GENERATE(200, 33, 17, 5);
  torch::manual_seed(3);
  // Also numbers that overflow, and ones that are subnormal in half.
  const auto numbers = [&](double scale) {
    const auto spread =
        torch::exp(torch::randn({12000 / channels + 1, channels}, at::kDouble) * scale);
    return (spread * torch::randn({12000 / channels + 1, channels}, at::kDouble)).to(dtype);
  };
  const auto scale = GENERATE(0.5, 5.0);
  const auto x = numbers(scale), dy = numbers(scale);
  const auto expected = written(Processor::kPortable, x, dy);
  int compared = 0;
  for (const auto path : {Processor::kAvx2, Processor::kAvx512}) {
    if (!batch_norm::is_available(path)) continue;
    CHECK(torch::equal(written(path, x, dy), expected));
    ++compared;
  }
  if (compared == 0) DDPSCOPE_SKIP("this processor has no path but the portable one");
}

// The payload of a NaN that a sum comes to is no number of ours; bfloat16 has one NaN.
TEST_CASE("every path of the processor writes the same NaN and Inf", "[norm]") {
  torch::manual_seed(4);
  const auto numbers = [] {
    at::Tensor all = torch::randn({2400, 5});
    const at::Tensor flat = all.view(-1);
    flat.slice(0, 3, 12000, 97).fill_(std::numeric_limits<float>::quiet_NaN());
    flat.slice(0, 10, 12000, 101).fill_(-std::numeric_limits<float>::infinity());
    return all.to(at::kBFloat16);
  };
  const auto x = numbers(), dy = numbers();
  const auto expected = written(Processor::kPortable, x, dy, Told::kMapped);
  for (const auto path : {Processor::kAvx2, Processor::kAvx512}) {
    if (!batch_norm::is_available(path)) continue;
    CHECK(torch::equal(written(path, x, dy, Told::kMapped), expected));
  }
}

TEST_CASE("large layers are worked on by several threads", "[norm]") {
  const auto layout = GENERATE(batch_norm::Layout::kPlanes, batch_norm::Layout::kRows);
  const batch_norm::NormShape shape = {
      .layout = layout, .batch = 64, .channels = 64, .plane = 1600};
  const auto x = torch::randn({shape.elements()}), y = torch::empty_like(x);
  const auto terms = torch::ones({shape.channels}, at::kDouble);
  const double* const term = terms.const_data_ptr<double>();
  const batch_norm::ChannelTerms of_channel = {term, term, term, term};
  const void* const from = x.const_data_ptr();
  void* const to = y.mutable_data_ptr();
  const auto share_of_this_thread = [&](const std::function<void()>& work) {
    const double all = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const double own = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < 20; ++i) work();
    return (seconds_of(CLOCK_THREAD_CPUTIME_ID) - own) /
           (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - all);
  };
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  CHECK(share_of_this_thread([&] { batch_norm::measure(shape, from); }) < 0.8);
  CHECK(share_of_this_thread([&] { batch_norm::reduce(shape, from, from, term); }) < 0.8);
  CHECK(share_of_this_thread([&] { batch_norm::normalize(shape, from, of_channel, to); }) < 0.8);
  CHECK(share_of_this_thread([&] { batch_norm::grad_input(shape, from, from, of_channel, to); }) <
        0.8);
  at::set_num_threads(before);
}

}  // namespace ddpscope::test::determinism_test
