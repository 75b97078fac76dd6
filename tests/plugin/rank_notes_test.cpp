// What one of several ranks notes of its steps, to be compared with the others. The ranks of these
// tests run one after the other.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_dir.h"
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using nlohmann::json;
using torch::optim::SGD;

/// What a rank does on its own.
struct Own {
  std::uint64_t data_seed = 7;
  double rate = 0.01;
  bool halves_rate = false;
  bool other_mask = false;
  std::int64_t nudges_at = 0;
  std::string level = "values";
};

struct NormedImpl : torch::nn::Module {
  explicit NormedImpl(const Own& own) {
    register_module("norm", norm);
    register_module("body", body);
    mask = register_buffer("mask", torch::full({8}, own.other_mask ? 0.5 : 1.0));
  }
  at::Tensor loss(const at::Tensor& batch) { return body(norm(batch) * mask).square().mean(); }
  torch::nn::BatchNorm1d norm{8};
  torch::nn::Linear body{8, 4};
  at::Tensor mask;
};
TORCH_MODULE(Normed);

void nudge(torch::nn::Linear& layer) {
  torch::NoGradGuard guard;
  at::Tensor first = layer->weight[0][0];
  first.fill_(std::nextafter(first.item<float>(), 9.0F));
}

void train_as(const Own& own, const std::string& dir) {
  Options options = quiet();
  options.report_dir = dir;
  options.level = own.level;
  torch::manual_seed(1);
  Normed net(own);
  torch::manual_seed(own.data_seed);
  attach_diagnostics(net, options);
  SGD optimizer(net->parameters(), own.rate);
  for (std::int64_t step = 1; step <= 20; ++step) {
    optimizer.zero_grad();
    net->loss(torch::randn({5, 8})).backward();
    optimizer.step();
    if (step == own.nudges_at) nudge(net->body);
    if (!own.halves_rate) continue;
    optimizer.param_groups()[0].options().set_lr(own.rate / static_cast<double>(step + 1));
  }
}

using Digests = std::map<std::int64_t, json>;

/// By step.
Digests digests_of(const Own& own, const char* world_size = "2") {
  const TemporaryDir dir;
  const std::string report = dir / "report";
  const Outcome outcome = in_child([&] {
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", world_size, 1);
    at::set_num_threads(1);
    train_as(own, report);
    return 0;
  });
  CAPTURE(outcome.said);
  REQUIRE(outcome.exit_code == 0);
  Digests digests;
  for (const std::string& line : records("digest", report)) {
    json digest = json::parse(line);
    digest.erase("time_unix_ns");
    digests[digest["step"].get<std::int64_t>()] = digest;
  }
  return digests;
}

std::vector<std::int64_t> steps_of(const Digests& digests) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, digest] : digests) steps.push_back(step);
  return steps;
}
}  // namespace

TEST_CASE("Ranks that train alike note the same, before the first step and in each compared one") {
  const Digests digests = digests_of({});
  CHECK(steps_of(digests) == std::vector<std::int64_t>{0, 1, 2, 4, 8, 16});
  for (const auto& [step, digest] : digests) {
    CAPTURE(digest.dump());
    CHECK(digest.contains("structure"));
    CHECK(digest.contains("parameters") == (step != 1));  // told as step 0
    CHECK(digest.contains("buffers"));
    CHECK(digest["backwards"] == step);
    CHECK(digest["forwards"] == step);
    CHECK(digest["optimizer_steps"] == step);
    if (step == 0) continue;
    CHECK(digest["received"] == 4);
    CHECK(digest["learning_rate"] == 0.01);
    CHECK(digest["groups"] == 1);
    CHECK(digest["members"] == 4);
  }
  CHECK(digests.at(0)["parameters"] != digests.at(2)["parameters"]);
  CHECK(digests_of({}) == digests);
}

TEST_CASE("A rank alone notes nothing to compare") { CHECK(digests_of({}, "1").empty()); }

TEST_CASE(
    "Buffers are read before the first forward changes them, parameters before the first step") {
  const Digests digests = digests_of({});
  const Digests other_batches = digests_of({.data_seed = 8});
  CHECK(other_batches.at(0) == digests.at(0));
  CHECK(other_batches.at(1)["buffers"] != digests.at(1)["buffers"]);
  CHECK(other_batches.at(2)["parameters"] != digests.at(2)["parameters"]);
  const Digests other_mask = digests_of({.other_mask = true});
  CHECK(other_mask.at(0)["parameters"] == digests.at(0)["parameters"]);
  CHECK(other_mask.at(0)["buffers"] != digests.at(0)["buffers"]);
  CHECK(other_mask.at(0)["structure"] == digests.at(0)["structure"]);
}

TEST_CASE("One bit of one weight that a rank changed is another fingerprint from then on") {
  const Digests digests = digests_of({});
  const Digests nudged = digests_of({.nudges_at = 5});
  CHECK(nudged.at(4) == digests.at(4));
  CHECK(nudged.at(8)["parameters"] != digests.at(8)["parameters"]);
  CHECK(nudged.at(8)["gradients"] == digests.at(8)["gradients"]);
}

TEST_CASE("A rate that changes in each step is noted in each") {
  const Digests digests = digests_of({.halves_rate = true});
  CHECK(steps_of(digests) == std::vector<std::int64_t>{0, 1, 2, 4, 8, 16});
  CHECK(digests.at(1)["learning_rate"] == 0.01);
  CHECK(digests.at(4)["learning_rate"] == 0.01 / 4);
  CHECK(digests.at(16)["learning_rate"] == 0.01 / 16);
  CHECK(digests_of({.rate = 0.02}).at(1)["optimizers"] != digests.at(1)["optimizers"]);
}

TEST_CASE("At level watch ranks compare no values") {
  const Digests digests = digests_of({.level = "watch"});
  CHECK(steps_of(digests) == std::vector<std::int64_t>{0, 1, 2, 4, 8, 16});
  for (const auto& [step, digest] : digests) {
    CHECK_FALSE(digest.contains("parameters"));
    CHECK_FALSE(digest.contains("buffers"));
    CHECK(digest.contains("structure"));
  }
}

}  // namespace ddpscope::test
