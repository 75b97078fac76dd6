// Beyond max_report_mb.
#include <algorithm>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
// Has one error from step 2 on.
struct UnnamedImpl : torch::nn::Module {
  at::Tensor loss() { return (body(torch::randn({5, 8})) * scale).square().mean(); }
  torch::nn::Linear body = register_module("body", torch::nn::Linear(8, 8));
  at::Tensor scale = torch::ones({8}, torch::requires_grad());
};
TORCH_MODULE(Unnamed);

constexpr int kModels = 30;

void train_named(int number) {
  const std::string label = std::string(60'000, 'l') + std::to_string(number);
  Unnamed net;
  Attachment attachment = attach_diagnostics(net).name(label);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  attachment.detach();
}
}  // namespace

TEST_CASE("Beyond max_report_mb findings are kept and then one line says where they go") {
  const Outcome outcome = in_child([] {
    setenv("DDPSCOPE",
           ("console=quiet:max_report_mb=1:overhead=1000:report_dir=" + report_dir()).c_str(), 1);
    for (int i = 0; i < kModels; ++i) train_named(i);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(records("finding").size() >= 2);
  CHECK(records("finding").size() < kModels);
  CHECK(records("limit").size() == 1);
  CHECK(records("summary").size() == 1);
  const std::string line = "ddpscope: error: " + report_dir() +
                           "/rank-0.jsonl: max_report_mb is reached. Findings go to stderr; "
                           "training continues.\n";
  const auto at = outcome.said.find(line);
  REQUIRE(at != std::string::npos);
  CHECK(outcome.said.find("max_report_mb", at + line.size()) == std::string::npos);
  CHECK(outcome.said.find("[module-unregistered]", at) != std::string::npos);
}

}  // namespace ddpscope::test
