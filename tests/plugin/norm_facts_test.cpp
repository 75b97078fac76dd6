// What a synchronised batch norm tells the checks: NaN that other ranks send, and short batches.
#include <ddpscope/ops.h>

#include <cmath>

#include "tests/support/torch_test.h"

namespace ddpscope::test::norm_facts_test {
namespace {
constexpr std::int64_t kChannels = 8;
constexpr int kForward = 1, kBackward = 2;  // exchanges of a step

/// Another rank with the same batches; what it sends in exchange `spoils` from now holds a NaN.
struct Twin {
  int spoils = 0;
  CommunicatorPtr group = make_communicator(0, 2, [this](at::Tensor& record) {
    record.mul_(2);
    if (spoils-- == 1) record[4] = std::nan("");
  });
};

struct NormNetImpl : torch::nn::Module {
  explicit NormNetImpl(const CommunicatorPtr& group)
      : norm(register_module(
            "norm", SyncBatchNorm1d(torch::nn::BatchNorm1dOptions(kChannels), group, "norm"))) {}
  at::Tensor loss(const at::Tensor& x) {
    return second(torch::relu(norm(first(x)))).square().mean();
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, kChannels));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kChannels, 4));
  SyncBatchNorm1d norm;
};
TORCH_MODULE(NormNet);

/// Trains; in step 6 the other rank sends NaN in this exchange.
void run(int spoilt, std::int64_t rows = 5) {
  Twin twin;
  NormNet net(twin.group);
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 1; step <= 8; ++step) {
    twin.spoils = step == 6 ? spoilt : 0;
    optimizer.zero_grad();
    net->loss(torch::randn({rows, 8})).backward();
    optimizer.step();
  }
}
}  // namespace

TEST_CASE("A NaN among the statistics of another rank is told as that rank's") {
  run(kForward);
  const auto all = findings();
  const Finding* found = find(all, "numeric-nonfinite-forward");
  REQUIRE(found != nullptr);
  CHECK(found->step == 6);
  CHECK(found->op == "ddpscope::sync_batch_norm");
  CHECK(text_fact(*found, "cause") == "other_rank");
  CHECK(found->what.find("statistics of other ranks were not, in 1 channel") != std::string::npos);
}

TEST_CASE("A NaN in the gradient of another rank is told as that rank's") {
  run(kBackward);
  const auto all = findings();
  const Finding* found = find(all, "numeric-nonfinite-backward");
  REQUIRE(found != nullptr);
  CHECK(found->step == 6);
  CHECK(found->op == "ddpscope::sync_batch_norm");
  CHECK(found->why.starts_with("the gradient that other ranks gave the layer was not finite"));
}

TEST_CASE("Four values per channel on all ranks together are found") {
  run(/*spoilt=*/0, /*rows=*/2);
  check_findings({"norm-batch-of-one warning norm - - ddpscope::sync_batch_norm"});
}

TEST_CASE("A layer over ranks with six finite values per channel is no finding") {
  run(/*spoilt=*/0, /*rows=*/3);
  check_silent();
}

}  // namespace ddpscope::test::norm_facts_test
