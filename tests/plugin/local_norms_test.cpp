// Batch norms that the setting `sync_batch_norm` leaves to their rank.
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::local_norms_test {
namespace {
using torch::nn::BatchNorm2d;

torch::nn::BatchNorm2dOptions options_of(bool is_nameless) {
  return torch::nn::BatchNorm2dOptions(4).affine(!is_nameless).track_running_stats(!is_nameless);
}

struct LateHeadImpl : torch::nn::Module {
  explicit LateHeadImpl(bool is_nameless)
      : norm(register_module("norm", BatchNorm2d(options_of(is_nameless)))) {}
  at::Tensor loss(const at::Tensor& x) {
    const at::Tensor features = norm(conv(x));
    return (head.is_empty() ? features : head(features)).square().mean();
  }
  void add_head() { head = register_module("head", BatchNorm2d(4)); }
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(3, 4, 1));
  BatchNorm2d norm;
  BatchNorm2d head = nullptr;
};
TORCH_MODULE(LateHead);

enum class Way : std::uint8_t { kAllAtOnce, kHeadInStepTwo, kHeadExcluded, kOnAThread, kNameless };

void train(const Place& place, Way way) {
  LateHead net(way == Way::kNameless);
  if (way != Way::kHeadInStepTwo && way != Way::kNameless) net->add_head();
  Options options = quiet();
  options.sync_batch_norm = true;
  if (way == Way::kHeadExcluded) options.sync_batch_norm_exclude = "head";
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const Group group = place.group();
  for (const at::Tensor& parameter : net->parameters()) broadcast(group, parameter.detach());
  at::Tensor loss;
  const auto forward = [&] { loss = net->loss(torch::randn({2, 3, 5, 5})); };
  for (int step = 1; step <= 6; ++step) {
    if (step == 2 && way == Way::kHeadInStepTwo) net->add_head();
    optimizer.zero_grad();
    if (step > 1 && way == Way::kOnAThread) {
      std::thread(forward).join();
    } else {
      forward();
    }
    loss.backward();
    for (const at::Tensor& parameter : net->parameters()) {
      if (parameter.grad().defined()) all_reduce(group, parameter.grad().div_(place.ranks));
    }
    optimizer.step();
  }
}

/// What rank 0 tells.
std::vector<nlohmann::json> local_norms(Way way) {
  Ranks ranks(2, [way](const Place& place) {
    train(place, way);
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  std::vector<nlohmann::json> found;
  for (const std::string& line : records("finding")) {
    auto finding = nlohmann::json::parse(line);
    if (finding.at("id") == "norm-local-batch-stats") found.push_back(std::move(finding));
  }
  return found;
}

bool has(const nlohmann::json& finding, const char* text) {
  return finding.at("why").get<std::string>().find(text) != std::string::npos;
}
}  // namespace

TEST_CASE("A layer that was registered after the ranks had compared theirs is warned of") {
  const auto found = local_norms(Way::kHeadInStepTwo);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "warning");
  CHECK(found[0].at("module_path") == "head");
  CHECK(has(found[0], "registered when the ranks compared theirs"));
}

TEST_CASE("Layers that another thread calls are warned of") {
  const auto found = local_norms(Way::kOnAThread);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "warning");
  CHECK(found[0].at("facts").at("layers_count") == 2);
  CHECK(has(found[0], "calls of the thread that attached the model"));
}

TEST_CASE("Layers that no call tells are warned of, also where there are no others") {
  const auto found = local_norms(Way::kNameless);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "warning");
  CHECK(has(found[0], "tells the layers of a model by their weight and running mean"));
}

TEST_CASE("A layer that the user excluded is not told of") {
  CHECK(local_norms(Way::kHeadExcluded).empty());
}

TEST_CASE("A head that was there from the first step runs over the ranks as all do") {
  CHECK(local_norms(Way::kAllAtOnce).empty());
}

}  // namespace ddpscope::test::local_norms_test
