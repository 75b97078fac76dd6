// Cases that other projects test their synchronised batch norms with; whose they are is beside
// each.
#include <atomic>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::peers_test {
namespace {
constexpr auto kLast = at::MemoryFormat::ChannelsLast;

/// Exchanges of a rank of two that has a twin.
struct Counted {
  std::atomic<int> exchanges{0};
  CommunicatorPtr group = make_communicator(0, 2, [this](at::Tensor& record) {
    ++exchanges;
    record.mul_(2);
  });
};

/// A sequence that may be an element of another.
struct PartImpl : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  at::Tensor forward(at::Tensor x) { return SequentialImpl::forward(x); }
};
TORCH_MODULE(Part);

double limit_of(at::ScalarType dtype) {
  return dtype == at::kHalf ? 1e-3 : dtype == at::kDouble ? 1e-8 : 1e-5;
}
}  // namespace

// pytorch test/test_nn.py: test_sync_batchnorm_backward_elemt
TEST_CASE("three ranks of five values have gradients in either layout of input and output",
          "[norm]") {
  torch::manual_seed(1);
  const bool input_last = GENERATE(false, true);
  const bool gradient_last = GENERATE(false, true);
  NormCase norm =
      make_case({.samples = {1, 1, 1}, .shape = {3, 5, 1}, .channels_last = input_last});
  for (at::Tensor& gradient : norm.gradients) {
    if (gradient_last) gradient = gradient.contiguous(kLast);
  }
  check_outcomes(norm);
}

// pytorch test/test_nn.py: test_sync_batchnorm_accuracy_cuda
TEST_CASE("one sample of large planes or volumes has the statistics of one batch", "[norm]") {
  torch::manual_seed(2);
  SECTION("planes") { check_outcomes(make_case({.samples = {1}, .shape = {96, 112, 112}})); }
  SECTION("volumes") { check_outcomes(make_case({.samples = {1}, .shape = {2, 112, 112, 112}})); }
}

// pytorch test/test_nn.py: test_batchnorm_nhwc_cuda
TEST_CASE("the layout of channels last gives the values and gradients of the other", "[norm]") {
  const auto dtype = GENERATE(at::kHalf, at::kFloat);
  torch::manual_seed(3);
  const NormCase rows = make_case({.samples = {2, 2}, .shape = {64, 50, 50}, .dtype = dtype});
  NormCase last = rows;
  for (at::Tensor& input : last.inputs) input = input.contiguous(kLast);
  for (at::Tensor& gradient : last.gradients) gradient = gradient.contiguous(kLast);
  const auto expected = run_case(rows);
  const auto found = run_case(last);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(found[rank].y.is_contiguous(kLast));
    CHECK(found[rank].dx.is_contiguous(kLast));
    CHECK(error_of(found[rank].y, expected[rank].y) < limit_of(dtype));
    CHECK(error_of(found[rank].dx, expected[rank].dx) < 2 * limit_of(dtype));
    CHECK(error_of(found[rank].running_var, expected[rank].running_var) < 1e-6);
  }
}

// pytorch test/test_nn.py: test_convert_sync_batchnorm
TEST_CASE("a converted sequence keeps its tensors, and instance norm stays what it is", "[norm]") {
  torch::nn::Sequential net(torch::nn::BatchNorm1d(100), torch::nn::InstanceNorm1d(100));
  std::vector<at::Tensor> before;
  for (const auto& entry : net->named_parameters()) before.push_back(entry.value());
  for (const auto& entry : net->named_buffers()) before.push_back(entry.value());
  Counted counted;
  const auto report = convert_sync_batch_norm(*net, counted.group);
  CHECK(report.converted == std::vector<std::string>{"0"});
  CHECK(std::dynamic_pointer_cast<SyncBatchNorm1dImpl>(net->ptr(0)) != nullptr);
  CHECK(std::dynamic_pointer_cast<torch::nn::InstanceNorm1dImpl>(net->ptr(1)) != nullptr);
  std::vector<at::Tensor> after;
  for (const auto& entry : net->named_parameters()) after.push_back(entry.value());
  for (const auto& entry : net->named_buffers()) after.push_back(entry.value());
  REQUIRE(after.size() == before.size());
  for (std::size_t i = 0; i < after.size(); ++i) CHECK(after[i].is_same(before[i]));
}

// pytorch torch/testing/_internal/distributed/distributed_test.py:
// test_DistributedDataParallel_SyncBatchNorm and its variants
TEST_CASE("ranks that train a part of the batch each agree with the whole batch", "[norm]") {
  torch::manual_seed(4);
  const auto exchange = GENERATE(ExchangeMode::kSum, ExchangeMode::kGather);
  Batches batches{.samples = {4, 4, 4}, .shape = {16}};
  SECTION("2D_Input") {}
  SECTION("Channels_Last") {
    batches.shape = {8, 6, 6};
    batches.channels_last = true;
  }
  SECTION("No_Affine") { batches.affine = false; }
  SECTION("Single_Input_Per_Process") { batches.samples = {1, 1, 1}; }
  SECTION("Diff_Input_Sizes_Running_Value") { batches.samples = {2, 5, 3}; }
  SECTION("Diff_Input_Sizes_gradient") { batches.samples = {2, 3, 4}; }  // rank + 2
  SECTION("Half") { batches.dtype = at::kHalf; }
  NormCase norm = make_case(batches);
  norm.exchange = exchange;
  check_outcomes(norm);
}

// pytorch distributed_test.py: test_ddp_sync_bn_training_vs_eval
TEST_CASE("training exchanges once each way and evaluation never", "[norm]") {
  Counted counted;
  SyncBatchNorm2d norm(torch::nn::BatchNormOptions(4), counted.group);
  const at::Tensor x = seeded_randn(5, {3, 4, 2, 2}).requires_grad_();
  norm->forward(x).sum().backward();
  const int once = counted.exchanges;
  CHECK(once >= 2);
  norm->forward(x).sum().backward();
  CHECK(counted.exchanges == 2 * once);
  norm->eval();
  norm->forward(x).sum().backward();
  const torch::NoGradGuard guard;
  norm->forward(x);
  CHECK(counted.exchanges == 2 * once);
}

// pytorch distributed_test.py: test_SyncBatchNorm_process_group
TEST_CASE("each converted layer, also a nested one, runs over the group that was given", "[norm]") {
  Counted counted;
  torch::nn::Sequential net;
  net->push_back("norm", torch::nn::BatchNorm2d(3));
  net->push_back("inner", Part(torch::nn::Conv2d(3, 4, 1), torch::nn::BatchNorm2d(4)));
  convert_sync_batch_norm(*net, counted.group);
  int layers = 0;
  for (const auto& module : net->modules(/*include_self=*/false)) {
    const auto layer = std::dynamic_pointer_cast<SyncBatchNorm2dImpl>(module);
    if (layer == nullptr) continue;
    ++layers;
    CHECK(layer->communicator == counted.group);
  }
  CHECK(layers == 2);
}

// pytorch torch/testing/_internal/distributed/... and test_c10d_common.py:
// test_sync_batch_norm_empty_input, test_sync_batch_norm_only_empty_input
TEST_CASE("an empty batch on one rank leaves forward and backward of the others right", "[norm]") {
  torch::manual_seed(6);
  const auto dtype = GENERATE(at::kFloat, at::kHalf);
  const std::vector<std::int64_t> samples =
      GENERATE(std::vector<std::int64_t>{0, 2}, std::vector<std::int64_t>{2, 0});
  check_outcomes(make_case({.samples = samples, .shape = {2, 4, 4}, .dtype = dtype}));
}

// apex tests/distributed/synced_batchnorm: two_gpu_unit_test, two_gpu_test_different_batch_size
TEST_CASE("two ranks with equal and with different batches keep the limits of apex", "[norm]") {
  const auto dtype = GENERATE(at::kFloat, at::kHalf, at::kDouble);
  const std::vector<std::int64_t> samples =
      GENERATE(std::vector<std::int64_t>{5, 5}, std::vector<std::int64_t>{6, 4});
  torch::manual_seed(7);
  NormCase norm = make_case({.samples = samples, .shape = {10, 16, 8}, .dtype = dtype, .mean = 0});
  const auto found = run_case(norm);
  const auto expected = oracle_of(norm);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(error_of(found[rank].y, expected[rank].y) < limit_of(dtype));
    CHECK(error_of(found[rank].dx, expected[rank].dx) < 2 * limit_of(dtype));
    CHECK(error_of(found[rank].running_mean, expected[rank].running_mean) < 1e-5);
    CHECK(error_of(found[rank].running_var, expected[rank].running_var) < 1e-5);
  }
}

// apex tests/distributed/synced_batchnorm: test_groups
TEST_CASE("four ranks in groups of two have two statistics", "[norm]") {
  const auto pairs =
      std::vector<std::shared_ptr<ThreadGroup>>{ThreadGroup::make(2), ThreadGroup::make(2)};
  const auto means = on_ranks(4, [&](int rank, const CommunicatorPtr&) {
    const auto group = pairs[static_cast<std::size_t>(rank / 2)]->communicator(rank % 2);
    SyncBatchNorm1d norm(torch::nn::BatchNormOptions(3).momentum(1.0), group);
    norm->forward(torch::full({4, 3}, static_cast<float>(rank)));
    return norm->running_mean[0].item<double>();
  });
  CHECK(means == std::vector<double>{0.5, 0.5, 2.5, 2.5});
}

// MMCV tests/test_ops/test_syncbn.py: mode N, where a rank weighs by its number of values
TEST_CASE("ranks weigh by their values, in float and in half, also where one has none", "[norm]") {
  torch::manual_seed(8);
  const auto dtype = GENERATE(at::kFloat, at::kHalf);
  const std::vector<std::int64_t> samples =
      GENERATE(std::vector<std::int64_t>{1, 3}, std::vector<std::int64_t>{0, 4});
  check_outcomes(make_case({.samples = samples, .shape = {3, 3, 3}, .dtype = dtype, .mean = 3}));
}

}  // namespace ddpscope::test::peers_test
