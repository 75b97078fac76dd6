// Correct programs in which NaN and Inf come and go: nothing is reported, neither in the steps that
// are surveyed nor where hooks rest. Beside them an epsilon that float16 does not have.
#include <cmath>
#include <limits>

#include "tests/support/torch_test.h"

namespace ddpscope::test::finite_values_test {
namespace {
using torch::nn::Embedding;
using torch::nn::EmbeddingOptions;
using torch::nn::Linear;
constexpr int kManySteps = 100;  // hooks rest from the 65th on
constexpr std::int64_t kRows = 4, kLength = 6, kWidth = 8, kWords = 20;

struct TaggerImpl : torch::nn::Module {
  explicit TaggerImpl(bool sparse = false)
      : words(register_module(
            "words", Embedding(EmbeddingOptions(kWords, kWidth).padding_idx(0).sparse(sparse)))) {}
  Embedding words;
  Linear query = register_module("query", Linear(kWidth, kWidth));
  Linear tag = register_module("tag", Linear(kWidth, 3));
};
TORCH_MODULE(Tagger);

/// Rows of different lengths, zero behind their ends.
at::Tensor text() {
  const auto lengths = torch::randint(2, kLength + 1, {kRows, 1});
  const auto padding = torch::arange(kLength).unsqueeze(0) >= lengths;
  return torch::randint(1, kWords, {kRows, kLength}).masked_fill(padding, 0);
}

at::Tensor attended(Tagger& net, const at::Tensor& text) {
  const auto words = net->words(text);
  const auto scores = torch::matmul(net->query(words), words.transpose(1, 2));
  const auto padding = text.eq(0).unsqueeze(1);
  return torch::matmul(torch::softmax(scores.masked_fill(padding, -INFINITY), 2), words);
}

at::Tensor loss_over_words(Tagger& net, const at::Tensor& text, const at::Tensor& features) {
  const auto tags = text.remainder(3).masked_fill(text.eq(0), -100);
  return torch::nn::functional::cross_entropy(net->tag(features).flatten(0, 1), tags.flatten());
}

void check_silent_training(Tagger net, const std::function<at::Tensor(Tagger&)>& loss) {
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return loss(net); }, kManySteps);
  check_silent(1, /*steps=*/64);
}
}  // namespace

TEST_CASE("Attention over padded rows is silent") {
  check_silent_training(Tagger(), [](Tagger& net) {
    const auto rows = text();
    return loss_over_words(net, rows, attended(net, rows));
  });
}

TEST_CASE("A sparse table with a row for padding is silent") {
  check_silent_training(Tagger(/*sparse=*/true), [](Tagger& net) {
    const auto rows = text();
    return loss_over_words(net, rows, net->query(net->words(rows)));
  });
}

TEST_CASE("Memory that holds NaN until it is overwritten is silent") {
  check_silent_training(Tagger(), [](Tagger& net) {
    const auto rows = text();
    auto features = torch::empty({kRows, kLength, kWidth}).fill_(NAN);
    features.copy_(attended(net, rows));
    auto masked = torch::full({kRows, kLength, kWidth}, INFINITY);
    masked.zero_();
    return loss_over_words(net, rows, features + masked);
  });
}

TEST_CASE("Metrics that are not finite and reach no loss are silent") {
  check_silent_training(Tagger(), [](Tagger& net) {
    const auto rows = text();
    const auto features = attended(net, rows);
    const auto surprise = -(features - features).log();  // a graph that nobody follows
    const torch::NoGradGuard guard;
    const double mean = (surprise / features.sub(features)).mean().item<double>();
    REQUIRE(!std::isfinite(mean));
    const torch::AutoGradMode mode(true);
    return loss_over_words(net, rows, features);
  });
}

TEST_CASE("Values that are replaced before an operator would spoil them are silent") {
  check_silent_training(Tagger(), [](Tagger& net) {
    const auto rows = text();
    const auto features = attended(net, rows);
    const auto size = features.square().sum(2, true);
    const auto safe = torch::where(size.gt(1e-3), size, torch::ones_like(size));
    return loss_over_words(net, rows, features / safe.sqrt());
  });
}

TEST_CASE("An epsilon that float16 does not have is found") {
  Tagger net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const auto loss = [&] {
    const auto rows = text();
    const auto features = attended(net, rows);
    const auto likely = torch::softmax(net->tag(features), 2).to(torch::kHalf);
    return -(likely + 1e-8).log().to(torch::kFloat).mean();
  };
  train(optimizer, loss, kManySteps);
  const auto all = findings();
  const Finding* found = find(all, "numeric-risky-domain");
  REQUIRE(found != nullptr);
  CHECK(found->severity == "warning");
  CHECK(text_fact(*found, "rule") == "epsilon_lost");
  CHECK(text_fact(*found, "dtype") == "float16");
}

TEST_CASE("An epsilon of the optimizer that float16 does not have is told of its NaN") {
  torch::nn::Sequential net(Linear(8, 6), torch::nn::ReLU(), Linear(6, 2));
  attach_diagnostics(*net, quiet());
  net->to(torch::kHalf);
  torch::optim::Adam optimizer(net->parameters(), 0.01);
  const at::Tensor x = torch::randn({4, 8}, at::kHalf) * 1e-3;
  train(
      optimizer, [&] { return net->forward(x).to(torch::kFloat).square().mean(); }, 4);
  const auto all = findings();
  const Finding* found = find(all, "numeric-nonfinite-forward");
  REQUIRE(found != nullptr);
  CHECK(found->step == 2);
  CHECK(found->why.find("; Adam steps it in float16, where its eps is 0") != std::string::npos);
}

}  // namespace ddpscope::test::finite_values_test
