#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::convert_test {
namespace {
using torch::nn::Sequential;
using Names = std::vector<std::string>;

CommunicatorPtr pair_of_one() {
  return make_communicator(0, 2, [](at::Tensor& record) { record.mul_(2); });
}

struct ResidualImpl : torch::nn::Module {
  ResidualImpl() {
    body = register_module("body", Sequential(torch::nn::Conv2d(3, 4, 1), torch::nn::BatchNorm2d(4),
                                              torch::nn::ReLU()));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(body->forward(x)); }
  Sequential body{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};
TORCH_MODULE(Residual);

/// A sequence that may be an element of another.
struct StageImpl : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  at::Tensor forward(at::Tensor x) { return SequentialImpl::forward(x); }
};
TORCH_MODULE(Stage);

struct SpecialNormImpl : torch::nn::BatchNorm2dImpl {
  using BatchNorm2dImpl::BatchNorm2dImpl;
  at::Tensor forward(const at::Tensor& x) { return BatchNorm2dImpl::forward(x) + 1; }
};
TORCH_MODULE(SpecialNorm);

Names names_of(const ConversionReport& report) {
  Names names;
  for (const auto& [name, why] : report.not_converted) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("batch norms in sequences are replaced and named after their path", "[norm]") {
  Sequential net;
  net->push_back("stem", Stage(torch::nn::Conv2d(3, 4, 1), torch::nn::BatchNorm2d(4)));
  net->push_back("act", torch::nn::ReLU());
  net->push_back("norm", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(4).eps(1e-3)));
  const auto group = pair_of_one();
  const auto report = convert_sync_batch_norm(*net, group);
  CHECK(report.converted == Names{"stem.1", "norm"});
  CHECK(report.not_converted.empty());
  const auto made = std::dynamic_pointer_cast<SyncBatchNorm2dImpl>(net->ptr(2));
  REQUIRE(made);
  CHECK(made->layer == "norm");
  CHECK(made->communicator == group);
  CHECK(made->options.eps() == 1e-3);
  CHECK(net->named_children()["norm"] == net->ptr(2));
  CHECK(net->forward(torch::randn({2, 3, 5, 5})).sizes() == at::IntArrayRef({2, 4, 5, 5}));
  CHECK(made->num_batches_tracked.item<std::int64_t>() == 1);
}

TEST_CASE("a name of the model stands before the paths of its layers", "[norm]") {
  Sequential net(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  const auto report = convert_sync_batch_norm(*net, nullptr, "generator");
  CHECK(report.converted == Names{"1"});
  CHECK(std::dynamic_pointer_cast<SyncBatchNorm1dImpl>(net->ptr(1))->layer == "generator.1");
}

TEST_CASE("an optimizer that was built before goes on updating", "[norm]") {
  Sequential net(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto bias = net->named_parameters()["1.bias"];
  net->ptr(1)->eval();
  convert_sync_batch_norm(*net, nullptr);
  CHECK(net->named_parameters()["1.bias"].is_same(bias));
  CHECK(!net->ptr(1)->is_training());
  net->train();
  const auto before = bias.detach().clone();
  net->forward(torch::randn({5, 3})).pow(2).sum().backward();
  net->forward(torch::randn({5, 3})).sum().backward();
  optimizer.step();
  CHECK(!torch::equal(bias, before));
}

TEST_CASE("frozen parameters stay frozen", "[norm]") {
  Sequential net(torch::nn::BatchNorm1d(4));
  net->parameters()[0].requires_grad_(false);
  convert_sync_batch_norm(*net, nullptr);
  CHECK(!net->parameters()[0].requires_grad());
  CHECK(net->parameters()[1].requires_grad());
}

TEST_CASE("typed members stay and are reported with what to do", "[norm]") {
  ResidualImpl on_the_stack;
  const auto report = convert_sync_batch_norm(on_the_stack, pair_of_one());
  CHECK(report.converted == Names{"body.1"});
  CHECK(names_of(report) == Names{"norm"});
  CHECK_THAT(report.not_converted[0].second,
             Catch::Matchers::Contains("declare a ddpscope::SyncBatchNorm"));
  on_the_stack.forward(torch::randn({2, 3, 5, 5}));
}

TEST_CASE("subclasses and instance norm are never converted", "[norm]") {
  Sequential net(SpecialNorm(4), torch::nn::InstanceNorm2d(4), torch::nn::BatchNorm2d(4));
  const auto report = convert_sync_batch_norm(*net, nullptr);
  CHECK(report.converted == Names{"2"});
  CHECK(names_of(report) == Names{"0"});
  CHECK(std::dynamic_pointer_cast<torch::nn::InstanceNorm2dImpl>(net->ptr(1)));
}

TEST_CASE("lists and dictionaries, whose users ask for a type, are left", "[norm]") {
  struct Lists : torch::nn::Module {
    Lists() { register_module("list", torch::nn::ModuleList(torch::nn::BatchNorm2d(4))); }
  } lists;
  const auto report = convert_sync_batch_norm(lists, nullptr);
  CHECK(report.converted.empty());
  CHECK(names_of(report) == Names{"list.0"});
}

TEST_CASE("a batch norm that is used twice stays one", "[norm]") {
  torch::nn::BatchNorm1d norm(4);
  Sequential net(norm, torch::nn::Linear(4, 4), norm);
  convert_sync_batch_norm(*net, nullptr);
  CHECK(net->ptr(0) == net->ptr(2));
  CHECK(std::dynamic_pointer_cast<SyncBatchNorm1dImpl>(net->ptr(0)));
}

TEST_CASE("a batch norm that a member shares with a sequence is left in both", "[norm]") {
  struct Shared : torch::nn::Module {
    Shared() {
      norm = register_module("norm", torch::nn::BatchNorm1d(4));
      body = register_module("body", Sequential(norm));
    }
    torch::nn::BatchNorm1d norm{nullptr};
    Sequential body{nullptr};
  } shared;
  const auto report = convert_sync_batch_norm(shared, nullptr);
  CHECK(report.converted.empty());
  CHECK(names_of(report) == Names{"norm", "body.0"});
}

TEST_CASE("a batch norm itself cannot be replaced for its holder", "[norm]") {
  torch::nn::BatchNorm1d norm(4);
  CHECK(names_of(convert_sync_batch_norm(*norm, nullptr)) == Names{""});
}

}  // namespace ddpscope::test::convert_test
