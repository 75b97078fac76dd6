#include <sstream>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::module_test {
namespace {

template <class From, class To>
void copy_by_archive(const From& from, To& to) {
  std::stringstream archive;
  torch::save(from, archive);
  torch::load(to, archive);
}

CommunicatorPtr pair_of_one() {
  return make_communicator(1, 2, [](at::Tensor& record) { record.mul_(2); });
}

void check_equal(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto parameters = a.named_parameters(), buffers = a.named_buffers();
  REQUIRE(parameters.size() == 2);
  REQUIRE(buffers.size() == 3);
  for (const auto& item : parameters) {
    CHECK(torch::equal(item.value(), b.named_parameters()[item.key()]));
  }
  for (const auto& item : buffers) {
    CHECK(torch::equal(item.value(), b.named_buffers()[item.key()]));
  }
}

}  // namespace

TEST_CASE("archives of torch's batch norm and ours are interchangeable", "[norm]") {
  torch::manual_seed(1);
  torch::nn::BatchNorm2d theirs(4), theirs_again(4);
  SyncBatchNorm2d ours(4);
  theirs->weight.data().normal_();
  theirs(torch::randn({3, 4, 2, 2}));
  copy_by_archive(theirs, ours);
  check_equal(*theirs, *ours);
  ours(torch::randn({3, 4, 2, 2}));
  copy_by_archive(ours, theirs_again);
  check_equal(*ours, *theirs_again);
}

TEST_CASE("a clone has tensors of its own and shares the communicator", "[norm]") {
  SyncBatchNorm2d norm(torch::nn::BatchNormOptions(4).eps(1e-3), pair_of_one(), "stem.norm");
  norm->weight.data().normal_();
  const auto copy = std::dynamic_pointer_cast<SyncBatchNorm2dImpl>(norm->clone());
  REQUIRE(copy);
  CHECK(copy->communicator == norm->communicator);
  CHECK(copy->layer == "stem.norm");
  CHECK(copy->options.eps() == 1e-3);
  check_equal(*norm, *copy);
  CHECK(!copy->weight.is_alias_of(norm->weight));
  CHECK(copy->weight.is_same(copy->named_parameters()["weight"]));
}

TEST_CASE("modules equal torch's in training and in evaluation", "[norm]") {
  torch::manual_seed(2);
  torch::nn::BatchNorm1d theirs(4);
  SyncBatchNorm1d ours(4);
  for (const bool trains : {true, false}) {
    theirs->train(trains);
    ours->train(trains);
    for (const auto& sizes : {std::vector<std::int64_t>{5, 4}, {5, 4, 3}}) {
      const auto x = torch::randn(sizes);
      CHECK(error_of(ours(x), theirs(x).detach().to(at::kDouble)) < 2e-6);
    }
  }
  CHECK(error_of(ours->running_var, theirs->running_var.to(at::kDouble)) < 1e-6);
  CHECK(ours->num_batches_tracked.item<std::int64_t>() == 2);
  SyncBatchNorm3d deep(2);
  torch::nn::BatchNorm3d their_deep(2);
  const auto x = torch::randn({2, 2, 3, 4, 5});
  CHECK(error_of(deep(x), their_deep(x).detach().to(at::kDouble)) < 2e-6);
}

TEST_CASE("another dtype of the whole module works on", "[norm]") {
  const auto dtype = GENERATE(at::kHalf, at::kBFloat16, at::kDouble);
  SyncBatchNorm2d norm(4);
  norm->to(dtype);
  const auto x = torch::randn({3, 4, 2, 2}, dtype).requires_grad_();
  norm(x).sum().backward();
  CHECK(norm->weight.grad().scalar_type() == dtype);
  CHECK(norm->num_batches_tracked.item<double>() == 1);
}

TEST_CASE("an input of other dimensions is refused by name", "[norm]") {
  using Catch::Matchers::Contains;
  SyncBatchNorm2d norm(torch::nn::BatchNormOptions(4), nullptr, "stem.norm");
  CHECK_THROWS_WITH(
      norm(torch::randn({3, 4, 2})),
      Contains("SyncBatchNorm2d stem.norm: input must have 4 dimensions") && Contains("[3, 4, 2]"));
  CHECK_THROWS_WITH(SyncBatchNorm1d(4)->forward(torch::randn({3})),
                    Contains("must have 2 or 3 dimensions"));
  CHECK_THROWS_WITH(norm(at::Tensor()), Contains("SyncBatchNorm2d stem.norm: input is undefined"));
}

TEST_CASE("a module prints its options and its ranks", "[norm]") {
  std::ostringstream text;
  text << *SyncBatchNorm2d(torch::nn::BatchNormOptions(64).momentum(std::nullopt), pair_of_one());
  CHECK(text.str() ==
        "ddpscope::SyncBatchNorm2d(64, eps=1e-05, momentum=None, affine=true, "
        "track_running_stats=true, ranks=2)");
}

TEST_CASE("without weight or running values nothing is registered for them", "[norm]") {
  SyncBatchNorm2d norm(torch::nn::BatchNormOptions(4).affine(false).track_running_stats(false));
  CHECK(norm->parameters().empty());
  CHECK(norm->buffers().empty());
  norm(torch::randn({3, 4, 2, 2}));
}

}  // namespace ddpscope::test::module_test
