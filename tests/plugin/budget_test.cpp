// Runs longer than the cycles that are watched in full: hooks keep to their budget, what begins
// then is found as soon as the summary says, and correct programs stay silent whatever is left out.
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using nlohmann::json;
using torch::optim::SGD;

constexpr int kFullCycles = 16;

Options within(double percent) {
  Options options = quiet();
  options.overhead = percent;
  options.full_cycles = kFullCycles;
  return options;
}

/// Runs `program` in a process of its own; the summary it leaves.
json summary_of(const std::function<void()>& program) {
  const Outcome outcome = in_child([&] {
    at::set_num_threads(1);
    program();
    return 0;
  });
  CAPTURE(outcome.said);
  REQUIRE(outcome.exit_code == 0);
  const auto summaries = records("summary");
  REQUIRE(summaries.size() == 1);
  return json::parse(summaries[0]);
}

bool is_silent(const json& summary) { return summary["errors"] == 0 && summary["warnings"] == 0; }

struct Rows : torch::data::datasets::Dataset<Rows> {
  torch::data::Example<> get(std::size_t) override { return {torch::ones(8), torch::ones(1)}; }
  std::optional<std::size_t> size() const override { return 64; }
};

/// The forward of a program that calls no layer.
at::Tensor by_operators(Net& net, const at::Tensor& batch) {
  const auto layer = [](const at::Tensor& in, torch::nn::Linear& of) {
    return torch::linear(in, of->weight, of->bias);
  };
  return layer(layer(batch, net->first).relu(), net->second);
}

/// Hundreds of steps, of which hardly one is watched, and then `between`, with a loader alive.
template <class Between>
json summary_at_rest(Between&& between, bool calls_layers = true) {
  return summary_of([&] {
    Net net;
    Options options = within(0.2);
    options.full_cycles = 64;
    attach_diagnostics(net, options);
    SGD optimizer(net->parameters(), 0.01);
    const auto batch = input();
    const auto loader = torch::data::make_data_loader(
        Rows(), torch::data::DataLoaderOptions().batch_size(4).workers(1));
    const auto rows = loader->begin();
    const auto loss = [&] {
      return (calls_layers ? net->forward(batch) : by_operators(net, batch)).square().mean();
    };
    train(optimizer, loss, 600);
    between(net, batch);
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    train(optimizer, loss, 100);
  });
}

json finding_of(const std::string& id) {
  for (const std::string& line : records("finding")) {
    json finding = json::parse(line);
    if (finding["id"] == id) return finding;
  }
  return nullptr;
}
}  // namespace

TEST_CASE("A tiny model keeps the budget by rests, and stays silent") {
  const json summary = summary_of([] {
    Net net;
    attach_diagnostics(net, within(1));
    SGD optimizer(net->parameters(), 0.01);
    train(
        optimizer, [&] { return net->loss(); }, 12000);
  });
  CAPTURE(summary.dump());
  CHECK(is_silent(summary));
  CHECK(summary["steps"] == 12000);
  CHECK(summary["overhead_percent"].get<double>() < 3);  // 1 where nobody else uses the machine
  CHECK(summary["watched"]["share"].get<double>() < 0.5);
  CHECK(summary["overhead"]["grad-missing"]["coverage"].get<double>() < 0.5);
  CHECK(summary["overhead"]["grad-missing"]["latency_steps"].get<int>() > 2);
}

TEST_CASE("Without a budget hooks rest as much as they may, and that is said") {
  const int steps_per_cycle = GENERATE(1, 2);
  const json summary = summary_of([steps_per_cycle] {
    Net net;
    attach_diagnostics(net, within(0));
    SGD all(net->parameters(), 0.01);
    SGD second(net->second->parameters(), 0.01);
    for (int cycle = 0; cycle < 600; ++cycle) {
      all.zero_grad();
      net->loss().backward();
      all.step();
      if (steps_per_cycle == 2) second.step();
    }
  });
  CAPTURE(steps_per_cycle, summary.dump());
  CHECK(is_silent(summary));
  CHECK(summary["overhead"]["grad-missing"]["coverage"].get<double>() < 0.05);
  const json finding = finding_of("tool-check-disabled");
  REQUIRE_FALSE(finding.is_null());
  CHECK(finding["severity"] == "note");
  const std::int64_t since = finding["facts"]["since_step"];
  CHECK(since >= steps_per_cycle * kFullCycles);
  CHECK(since <= steps_per_cycle * kFullCycles + 1);
  CHECK(finding["facts"]["budget_ratio"] == 0);
  CHECK(finding["facts"]["latency_steps"] == summary["overhead"]["grad-missing"]["latency_steps"]);
}

TEST_CASE("Within a large budget every cycle is watched in full") {
  const json summary = summary_of([] {
    Net net;
    attach_diagnostics(net, within(1000));
    SGD optimizer(net->parameters(), 0.01);
    train(
        optimizer, [&] { return net->loss(); }, 300);
  });
  CHECK(summary["watched"].is_null());
  CHECK(finding_of("tool-check-disabled").is_null());
  CHECK(summary["overhead"]["optim-update-size"]["coverage"] == 1.0);
  CHECK(summary["overhead"]["grad-missing"]["latency_steps"] == 1);
}

TEST_CASE("What begins in a rest is found within the latency of the summary") {
  constexpr int kBegin = 1500;
  const json summary = summary_of([] {
    Net net;
    attach_diagnostics(net, within(3));
    SGD optimizer(net->parameters(), 1e-6);
    for (int step = 1; step <= 6000; ++step) {
      if (step < kBegin) optimizer.zero_grad();
      net->loss().backward();
      optimizer.step();
    }
  });
  CAPTURE(summary.dump());
  REQUIRE(summary["watched"]["share"].get<double>() < 0.9);
  const json finding = finding_of("optim-stale-gradient");
  REQUIRE(!finding.is_null());
  const std::int64_t latency = summary["overhead"]["optim-stale-gradient"]["latency_steps"];
  CHECK(finding["first_step"] >= kBegin);
  CHECK(finding["first_step"] <= kBegin + latency + 4);  // the check asks for three cycles
}

TEST_CASE("What one of two optimizers never clears is found within the latency") {
  constexpr int kBegin = 1500;  // turns of the loop, of two steps each
  const json summary = summary_of([] {
    Net generator;
    torch::nn::Sequential critic(torch::nn::Linear(4, 8), torch::nn::ReLU(),
                                 torch::nn::Linear(8, 1));
    attach_diagnostics(generator, within(3));
    attach_diagnostics(critic, quiet());
    torch::optim::Adam for_generator(generator->parameters(), 1e-6);
    torch::optim::Adam for_critic(critic->parameters(), 1e-6);
    for (int turn = 1; turn <= 4000; ++turn) {
      for_critic.zero_grad();
      const at::Tensor fake = generator->forward(torch::randn({5, 8}));
      (critic->forward(fake.detach()).mean() - critic->forward(torch::randn({5, 4})).mean())
          .backward();
      for_critic.step();
      if (turn < kBegin) for_generator.zero_grad();
      critic->forward(fake).mean().neg().backward();
      for_generator.step();
    }
  });
  CAPTURE(summary.dump());
  CHECK(summary["steps"] == 8000);
  REQUIRE(summary["watched"]["share"].get<double>() < 0.9);
  const json finding = finding_of("optim-stale-gradient");
  REQUIRE(!finding.is_null());
  const std::int64_t latency = summary["overhead"]["optim-stale-gradient"]["latency_steps"];
  CHECK(finding["first_step"] >= 2 * kBegin);
  CHECK(finding["first_step"] <= 2 * kBegin + latency + 2 * 4);  // three cycles of two steps
}

TEST_CASE("A loss that is NaN in a rest is told in its step") {
  constexpr int kBad = 1501;
  const json summary = summary_of([] {
    Net net;
    attach_diagnostics(net, within(0.5));
    SGD optimizer(net->parameters(), 0.01);
    for (int step = 1; step <= 1700; ++step) {
      optimizer.zero_grad();
      at::Tensor loss = net->loss();
      if (step >= kBad) loss = loss * std::numeric_limits<float>::infinity();
      loss.backward();
      optimizer.step();
    }
  });
  CAPTURE(summary.dump());
  const json finding = finding_of("numeric-nonfinite-forward");
  REQUIRE(!finding.is_null());
  CHECK(finding["first_step"] == kBad);
}

TEST_CASE("Accumulation, alternating parts, frozen parts and evaluation are silent between rests") {
  const json summary = summary_of([] {
    Side side;
    torch::nn::BatchNorm1d norm(8);
    attach_diagnostics(side, within(3));
    attach_diagnostics(norm, quiet());
    std::vector<at::Tensor> parameters = side->parameters();
    for (const at::Tensor& parameter : norm->parameters()) parameters.push_back(parameter);
    torch::optim::Adam optimizer(parameters, 1e-3);
    for (int step = 0; step < 1500; ++step) {
      optimizer.zero_grad();
      for (int part = 0; part < 3; ++part) {
        const at::Tensor hidden = norm(side->body(torch::randn({5, 8})));
        const at::Tensor loss = part == 1 ? side->side(hidden).square().mean()
                                          : hidden.square().mean() + side->side(hidden).mean();
        (loss / 3).backward();
      }
      torch::nn::utils::clip_grad_norm_(parameters, 1.0);
      optimizer.step();
      if (step % 100 == 99) {
        side->eval();
        norm->eval();
        const torch::NoGradGuard no_grad;
        norm(side->body(torch::randn({5, 8})));
        side->train();
        norm->train();
      }
    }
  });
  CAPTURE(summary.dump());
  CHECK(is_silent(summary));
  CHECK(summary["overhead"]["grad-missing"]["coverage"].get<double>() < 0.9);
}

TEST_CASE("A GAN with five critic steps is silent between rests") {
  const json summary = summary_of([] {
    Net generator;
    torch::nn::Sequential critic(torch::nn::Linear(4, 8), torch::nn::ReLU(),
                                 torch::nn::Linear(8, 1));
    attach_diagnostics(generator, within(3));
    attach_diagnostics(critic, quiet());
    torch::optim::Adam for_generator(generator->parameters(), 1e-3);
    torch::optim::Adam for_critic(critic->parameters(), 1e-3);
    const auto fake = [&] { return generator->forward(torch::randn({5, 8})); };
    for (int i = 0; i < 400; ++i) {
      for (int k = 0; k < 5; ++k) {
        for_critic.zero_grad();
        (critic->forward(fake().detach()).mean() - critic->forward(torch::randn({5, 4})).mean())
            .backward();
        for_critic.step();
      }
      for_generator.zero_grad();
      critic->forward(fake()).mean().neg().backward();
      for_generator.step();
    }
  });
  CAPTURE(summary.dump());
  CHECK(is_silent(summary));
  CHECK(summary["overhead"]["grad-missing"]["coverage"].get<double>() < 0.9);
}

TEST_CASE("A stall between two steps at rest is found") {
  const bool calls_layers = GENERATE(true, false);
  const json summary = summary_at_rest([](Net&, const at::Tensor&) {}, calls_layers);
  CAPTURE(calls_layers, summary.dump());
  CHECK(summary["overhead"]["data-loader-wait"]["coverage"] < 0.1);
  const json finding = finding_of("data-loader-wait");
  REQUIRE_FALSE(finding.is_null());
  CHECK(finding["step"] == 601);
}

TEST_CASE("An evaluation between two steps at rest is no stall") {
  const json summary = summary_at_rest([](Net& net, const at::Tensor& batch) {
    const torch::NoGradGuard no_grad;
    net->forward(batch);
  });
  CAPTURE(summary.dump());
  CHECK(summary["overhead"]["data-loader-wait"]["coverage"] < 0.1);
  CHECK(is_silent(summary));
}
}  // namespace ddpscope::test
