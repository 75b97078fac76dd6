// Batches that the program spoils itself before a layer reads them.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using Preparation = at::Tensor (*)(const at::Tensor& batch);

std::vector<Finding> train_on(Preparation prepared, at::ScalarType type = at::kFloat) {
  torch::nn::Linear net(8, 4);
  net->to(type);
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 1; i <= 3; ++i) {
    optimizer.zero_grad();
    at::Tensor batch = torch::rand({4, 8});
    if (i == 2) batch[1][2] = 0;
    net(prepared(batch)).square().mean().backward();
    optimizer.step();
  }
  return findings();
}

void check_batch(const std::vector<Finding>& all, const std::string& op, const char* fix) {
  const Finding* const found = find(all, "numeric-nonfinite-forward");
  REQUIRE(found != nullptr);
  CHECK(text_fact(*found, "cause") == "batch");
  CHECK(found->why.starts_with(op + " returned it in this step"));
  CHECK(found->fixes.at(0).text == fix);
}
}  // namespace

TEST_CASE("A logarithm of the batch is named that made Inf of it") {
  const auto all = train_on([](const at::Tensor& batch) { return batch.log().view({4, 8}); });
  check_batch(all, "aten::log", "clamp its input above 0 before it");
}

TEST_CASE("A batch that does not fit into float16 is named with its cast") {
  const auto all = train_on(
      [](const at::Tensor& batch) { return ((batch + 1) * 1e5).to(at::kHalf); }, at::kHalf);
  check_batch(all, "aten::to", "scale or clamp it before the cast, or use bfloat16");
}

TEST_CASE("A batch that came with NaN blames no operator that read it") {
  const auto all = train_on([](const at::Tensor& batch) {
    return torch::where(batch == 0, torch::full_like(batch, NAN), batch);
  });
  const Finding* const found = find(all, "numeric-nonfinite-forward");
  REQUIRE(found != nullptr);
  CHECK(found->why.find("returned it") == std::string::npos);
}

}  // namespace ddpscope::test
