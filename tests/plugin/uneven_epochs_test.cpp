// Epochs that end at different steps on the ranks of an average, told before they do.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
constexpr std::size_t kBatch = 4;
constexpr int kBatches = 75;  // that are trained, fewer than an epoch has

struct Rows : torch::data::datasets::Dataset<Rows> {
  torch::data::Example<> get(std::size_t) override {
    return {torch::randn({8}), torch::zeros({1})};
  }
  std::optional<std::size_t> size() const override { return std::nullopt; }
};

/// Each rank has so many rows.
int train_epoch(const Place& place, std::size_t rows) {
  torch::nn::Linear layer(8, 2);
  Options options = quiet();
  options.exchange_every = 1;
  attach_diagnostics(layer, options);
  const Group group = place.group();
  for (const at::Tensor& parameter : layer->parameters()) broadcast(group, parameter.detach());
  torch::optim::SGD optimizer(layer->parameters(), 0.01);
  auto loader = torch::data::make_data_loader(Rows().map(torch::data::transforms::Stack<>()),
                                              torch::data::samplers::RandomSampler(rows), kBatch);
  int batches = 0;
  for (const auto& batch : *loader) {
    optimizer.zero_grad();
    layer->forward(batch.data).square().mean().backward();
    for (const at::Tensor& parameter : layer->parameters()) {
      all_reduce(group, parameter.grad());
      parameter.mutable_grad() /= place.ranks;
    }
    optimizer.step();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (++batches == kBatches) break;
  }
  return 0;
}

std::vector<std::string> lags() {
  std::vector<std::string> found;
  for (const std::string& line : records("finding")) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("id") == "rank-step-lag") {
      found.push_back(record.at("severity").get<std::string>() + ": " +
                      record.at("what").get<std::string>());
    }
  }
  return found;
}
}  // namespace

TEST_CASE("That the epoch of one rank is shorter is told while the ranks train") {
  Ranks ranks(2, [](const Place& place) {
    return train_epoch(place, place.rank == 0 ? 81 * kBatch : 78 * kBatch + 1);
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(lags() ==
        std::vector<std::string>{"note: batches left in this epoch: 79 on rank 1, 81 on rank 0"});
}

TEST_CASE("Epochs of the same length are silent") {
  Ranks ranks(2, [](const Place& place) { return train_epoch(place, 81 * kBatch); });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(lags().empty());
}

}  // namespace ddpscope::test
