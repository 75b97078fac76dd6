// Models of a preloaded program that calls nothing but load() on them.
#include <sstream>

#include "tests/support/torch_test.h"

namespace ddpscope::test {

TEST_CASE("A network of features that is only loaded is no part of the one that is trained") {
  struct FeaturesImpl : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x) { return second(first(x).relu()); }
    torch::nn::Linear first = register_module("first", torch::nn::Linear(4, 8));
    torch::nn::Linear second = register_module("second", torch::nn::Linear(8, 8));
  };
  const auto saved = std::make_shared<FeaturesImpl>();
  std::stringstream file;
  torch::save(saved, file);
  auto features = std::make_shared<FeaturesImpl>();
  torch::load(features, file);
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net->parameters());
  train(optimizer, [&] { return features->forward(net->forward(input())).square().mean(); });
  CHECK(flush().errors == 0);
  CHECK(flush().warnings == 0);
}

}  // namespace ddpscope::test
