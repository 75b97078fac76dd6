// Epochs whose last batch has one row, told before it comes, each beside those that have none.
#include <thread>

#include "tests/support/torch_test.h"

namespace torch::data {
/// Reads a chunk of the data, as threads of LibTorch's loaders do.
struct ReadsChunk {
  void operator()() const { samplers::SequentialSampler(33).next(8); }
};
}  // namespace torch::data

namespace ddpscope::test {
namespace {
using namespace torch::data::samplers;  // NOLINT(google-build-using-namespace)
using torch::nn::BatchNorm1d;
using torch::nn::Linear;

constexpr std::size_t kBatch = 8;

/// The same row over and over.
struct Rows : torch::data::datasets::Dataset<Rows> {
  torch::data::Example<> get(std::size_t) override {
    return {torch::randn({8}), torch::zeros({1})};
  }
  std::optional<std::size_t> size() const override { return std::nullopt; }
};

struct Normed : torch::nn::Module {
  at::Tensor loss(const at::Tensor& rows) { return head(norm(layer(rows)).relu()).square().mean(); }
  Linear layer = register_module("layer", Linear(8, 8));
  BatchNorm1d norm = register_module("norm", BatchNorm1d(8));
  Linear head = register_module("head", Linear(8, 2));
};

template <class Sampler, class Use>
void for_batches(Sampler sampler, int limit, const Use& use) {
  auto loader = torch::data::make_data_loader(Rows().map(torch::data::transforms::Stack<>()),
                                              std::move(sampler), kBatch);
  for (const auto& batch : *loader) {
    use(batch.data);
    if (--limit == 0) break;
  }
}

/// Trains on the first batches of an epoch, and returns what is forecast.
template <class Sampler>
std::optional<Finding> forecast(const Sampler& sampler, bool evaluates = false) {
  Normed net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  const auto step = [&](const at::Tensor& rows) {
    train(
        optimizer, [&] { return net.loss(rows); }, 1);
  };
  if (evaluates) {
    net.eval();
    const torch::NoGradGuard guard;
    for_batches(SequentialSampler(33), 4, [&](const at::Tensor& rows) { net.loss(rows); });
  }
  net.train();
  for_batches(sampler, 4, step);
  check_findings({});
  const auto all = findings();
  const Finding* const found = find(all, "norm-batch-of-one");
  return found == nullptr ? std::nullopt : std::optional(*found);
}

void check_forecast(const std::optional<Finding>& found) {
  REQUIRE(found.has_value());
  CHECK(found->severity == "note");
  CHECK(found->module_path == "norm");
  CHECK(found->what == "1 value per channel in the last of 5 batches, if it is kept");
}
}  // namespace

TEST_CASE("That an epoch in random order ends with one row is forecast") {
  check_forecast(forecast(RandomSampler(33)));
}

TEST_CASE("That an epoch in order ends with one row is forecast") {
  check_forecast(forecast(SequentialSampler(33)));
}

TEST_CASE("That the epoch of one of two ranks ends with one row is forecast") {
  check_forecast(forecast(DistributedRandomSampler(65, 2, 1)));
}

TEST_CASE("That the epoch of one of two ranks in order ends with one row is forecast") {
  check_forecast(forecast(DistributedSequentialSampler(65, 2, 0)));
}

TEST_CASE("Of whole batches nothing is forecast") {
  CHECK_FALSE(forecast(RandomSampler(32)).has_value());
}

TEST_CASE("Of an evaluation that ends with one row nothing is forecast") {
  CHECK_FALSE(forecast(RandomSampler(32), /*evaluates=*/true).has_value());
}

TEST_CASE("Of the rows of a chunk that a loader's thread reads nothing is forecast") {
  Normed net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  std::thread(torch::data::ReadsChunk()).join();
  train(
      optimizer,
      [&] {
        return net.loss(torch::randn({std::int64_t{kBatch}, 8}));
      },
      1);
  check_findings({});
  const auto all = findings();
  CHECK(find(all, "norm-batch-of-one") == nullptr);
}

TEST_CASE("A sampler gives the same rows in the same order while it is looked at") {
  Normed net;
  attach_diagnostics(net, quiet());
  DistributedSequentialSampler sampler(65, 2, 1);
  std::vector<std::size_t> rows;
  while (const auto batch = sampler.next(kBatch)) {
    rows.insert(rows.end(), batch->begin(), batch->end());
  }
  REQUIRE(rows.size() == 33);
  CHECK(rows.front() == 33);
  CHECK(rows.back() == 0);
  CHECK(sampler.next(kBatch) == std::nullopt);
}

}  // namespace ddpscope::test
