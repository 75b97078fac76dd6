// Samplers that were made for other ranks than the run has.
#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
using Sampler = torch::data::samplers::DistributedRandomSampler;
constexpr std::size_t kRows = 64;
constexpr std::size_t kBatch = 4;

struct Rows : torch::data::datasets::Dataset<Rows> {
  explicit Rows(std::size_t count) : count_(count) {}
  torch::data::Example<> get(std::size_t index) override {
    return {torch::sin(torch::arange(32) * static_cast<double>(index + 1)), torch::zeros({1})};
  }
  std::optional<std::size_t> size() const override { return count_; }

 private:
  std::size_t count_ = 0;
};

struct Loop {
  std::size_t rows = kRows;
  std::size_t replicas = 2;
  bool tells_rank = true;
  bool takes_turns = false;  ///< each rank asks for another share in each epoch
  int epochs = 3;
};

int train(const Place& place, const Loop& loop) {
  torch::nn::Linear layer(32, 2);
  Options options = quiet();
  attach_diagnostics(layer, options);
  const Group group = place.group();
  for (const at::Tensor& parameter : layer->parameters()) broadcast(group, parameter.detach());
  torch::optim::SGD optimizer(layer->parameters(), 0.01);
  for (int epoch = 0; epoch < loop.epochs; ++epoch) {
    const int share = (loop.tells_rank ? place.rank : 0) + (loop.takes_turns ? 2 * epoch : 0);
    Sampler sampler(loop.rows, loop.replicas, static_cast<std::size_t>(share) % loop.replicas);
    sampler.set_epoch(static_cast<std::size_t>(epoch));
    auto loader = torch::data::make_data_loader(
        Rows(loop.rows).map(torch::data::transforms::Stack<>()), std::move(sampler), kBatch);
    int batches = 0;
    for (const auto& batch : *loader) {
      optimizer.zero_grad();
      layer->forward(batch.data).square().mean().backward();
      for (const at::Tensor& parameter : layer->parameters()) {
        all_reduce(group, parameter.grad());
        parameter.mutable_grad() /= place.ranks;
      }
      optimizer.step();
      if (++batches == 4) break;
    }
  }
  return 0;
}

Merged merged_run(const Loop& loop) {
  Ranks ranks(2, [&](const Place& place) { return train(place, loop); });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("Shares of samplers for more ranks than there are go unread") {
  // Of the larger set nobody counts what is left of an epoch.
  const Merged merged = merged_run({.rows = GENERATE(64, 1 << 20), .replicas = 4});
  CHECK(merged.says("warning: 50 % of the data is read by no rank (shares_unread)"));
  CHECK(merged.says("num_replicas 4, and no process asks for the share of ranks 2-3"));
}

TEST_CASE("Samplers that were told of no rank are named where batches are equal") {
  const Merged merged = merged_run({.replicas = 1, .tells_rank = false});
  CHECK(merged.says("error: all 2 ranks read identical batches"));
  CHECK(merged.says("their samplers were all made with num_replicas 1 and rank 0"));
}

TEST_CASE("Samplers of as many ranks, and shares that are read in turn, are silent") {
  const bool takes_turns = GENERATE(false, true);
  const std::size_t replicas = takes_turns ? 6 : 2;
  const Merged merged = merged_run({.replicas = replicas, .takes_turns = takes_turns});
  CHECK_FALSE(merged.says("data-same-on-ranks"));
}

}  // namespace ddpscope::test
