// Ranks that train two models, of which the loss of one reaches the other as well.
#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::two_losses_test {
namespace {
using Parameters = std::vector<at::Tensor>;

void average_flat(const Group& group, const Parameters& parameters, int ranks) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : parameters) parts.push_back(parameter.grad().reshape(-1));
  const at::Tensor flat = torch::cat(parts);
  all_reduce(group, flat);
  std::int64_t begin = 0;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor its = flat.slice(0, begin, begin + parameter.numel()).div_(ranks);
    parameter.grad().copy_(its.view_as(parameter));
    begin += parameter.numel();
  }
}

/// A generator of vectors and a critic of them, of other sizes.
struct Pair {
  torch::nn::Sequential made{torch::nn::Linear(4, 16), torch::nn::ReLU(), torch::nn::Linear(16, 8)};
  torch::nn::Sequential critic{torch::nn::Linear(8, 20), torch::nn::ReLU(),
                               torch::nn::Linear(20, 1)};
  torch::optim::SGD of_made{made->parameters(), 0.01};
  torch::optim::SGD of_critic{critic->parameters(), 0.01};

  Pair() {
    attach_diagnostics(made, quiet());
    attach_diagnostics(critic, quiet());
  }
  at::Tensor score(const at::Tensor& input) { return critic->forward(input).square().mean(); }
  void criticize(const at::Tensor& fake) {
    of_critic.zero_grad();
    (score(torch::randn({4, 8})) - 0.1 * score(fake.detach())).backward();
  }
};

using Step = std::function<void(Pair&, const Group&)>;

Merged merged_run(const Step& step) {
  Ranks ranks(2, [&](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Pair pair;
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    for (int i = 0; i < 24; ++i) step(pair, group);
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}

void train_pair(Pair& pair, const Group& group, bool is_stepped_late) {
  const at::Tensor fake = pair.made->forward(torch::randn({4, 4}));
  pair.criticize(fake);
  average_flat(group, pair.critic->parameters(), 2);
  if (!is_stepped_late) pair.of_critic.step();
  pair.of_made.zero_grad();
  pair.score(pair.made->forward(torch::randn({4, 4}))).backward();
  average_flat(group, pair.made->parameters(), 2);
  if (is_stepped_late) pair.of_critic.step();
  pair.of_made.step();
}

/// The losses are divided by the ranks, and gradients summed in place: nothing else writes them.
void train_pair_in_place(Pair& pair, const Group& group) {
  const auto sum = [&group](const Parameters& parameters) {
    for (const at::Tensor& parameter : parameters) all_reduce(group, parameter.grad());
  };
  pair.of_critic.zero_grad();
  (pair.score(torch::randn({4, 8})) / 2).backward();
  sum(pair.critic->parameters());
  pair.of_made.zero_grad();
  (pair.score(pair.made->forward(torch::randn({4, 4}))) / 2).backward();
  sum(pair.made->parameters());
  pair.of_critic.step();
  pair.of_made.step();
}

/// Gradients of the critic are summed while the generator runs, whose backward reaches them.
void overlap(Pair& pair, const Group& group, bool waits_late) {
  pair.criticize(pair.made->forward(torch::randn({4, 4})));
  std::vector<c10::intrusive_ptr<c10d::Work>> calls;
  for (const at::Tensor& parameter : pair.critic->parameters()) {
    std::vector<at::Tensor> gradient = {parameter.grad()};
    calls.push_back(group->allreduce(gradient));
  }
  const at::Tensor fake = pair.made->forward(torch::randn({4, 4}));
  const auto wait = [&] {
    for (const auto& call : calls) call->wait();
    for (const at::Tensor& parameter : pair.critic->parameters()) parameter.grad().div_(2);
    pair.of_critic.step();
  };
  if (!waits_late) wait();
  pair.of_made.zero_grad();
  pair.score(waits_late ? fake : pair.made->forward(torch::randn({4, 4}))).backward();
  if (waits_late) wait();
  average_flat(group, pair.made->parameters(), 2);
  pair.of_made.step();
}
}  // namespace

TEST_CASE("An average before a backward of another loss that reaches the model is told as early") {
  const Merged merged =
      merged_run([](Pair& pair, const Group& group) { train_pair(pair, group, true); });
  INFO(merged.said);
  CHECK(merged.says("SequentialImpl#2: error: backward 2 of 2 before step() was not averaged"));
  CHECK(merged.says("4 of 4 sampled gradients differ between ranks at step() (early)"));
  CHECK(merged.says("primary grad-accumulation-unsynced in torch::nn::SequentialImpl#2"));
}

TEST_CASE("A backward after sums in place of what it adds to is told as early, too") {
  const Merged merged = merged_run(train_pair_in_place);
  INFO(merged.said);
  CHECK(merged.says("4 of 4 sampled gradients differ between ranks at step() (early)"));
  CHECK(merged.says("primary grad-accumulation-unsynced in torch::nn::SequentialImpl#2"));
}

TEST_CASE("Two models that are averaged and stepped in turn are silent") {
  const Merged merged =
      merged_run([](Pair& pair, const Group& group) { train_pair(pair, group, false); });
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings, 0 notes"));
}

TEST_CASE("A backward that adds to gradients on their way is told") {
  merged_run([](Pair& pair, const Group& group) { overlap(pair, group, true); });
  std::string found;
  for (const std::string& line : records("finding")) found += line + "\n";
  INFO(found);
  CHECK(found.find("gradient of bias added to while all_reduce #") != std::string::npos);
}

TEST_CASE("A backward after the wait for gradients that it adds to is silent") {
  const Merged merged =
      merged_run([](Pair& pair, const Group& group) { overlap(pair, group, false); });
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings, 0 notes"));
}

}  // namespace ddpscope::test::two_losses_test
