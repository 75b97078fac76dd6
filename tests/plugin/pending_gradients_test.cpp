// Gradients that a program uses between a collective on them and the wait for it.
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
using Tensors = std::vector<at::Tensor>;
using Work = c10::intrusive_ptr<c10d::Work>;

Work reduce(const Group& group, const at::Tensor& tensor) {
  Tensors list = {tensor};
  return group->allreduce(list);
}

/// What a loop does with the gradient of the only weight, or a buffer of it.
using Average = std::function<void(const Group& group, at::Tensor gradient)>;

std::set<std::string> findings_of(const Average& average, std::int64_t width = 4) {
  Ranks ranks(2, [&](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    torch::nn::Sequential net(
        torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)));
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    torch::manual_seed(2 + place.rank);
    const at::Tensor weight = net->parameters()[0];
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      net->forward(torch::randn({2, width})).square().mean().backward();
      average(group, weight.grad());
      optimizer.step();
    }
    group->barrier()->wait();
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  std::set<std::string> found;  // a finding that is counted again is written again
  for (const std::string& line : records("finding")) {
    const auto finding = nlohmann::json::parse(line);
    if (finding.at("id") != "grad-used-while-reducing") continue;
    found.insert(finding.at("severity").get<std::string>() + " " +
                 finding.at("module_path").get<std::string>() + " " +
                 finding.at("subject").get<std::string>() + " " +
                 finding.at("op").get<std::string>() + " " +
                 finding.at("facts").at("access").get<std::string>());
  }
  return found;
}
}  // namespace

TEST_CASE("A gradient that is divided before the wait is told with its operator") {
  CHECK(findings_of([](const Group& group, at::Tensor gradient) {
          const Work work = reduce(group, gradient);
          gradient.div_(2);
          work->wait();
        }) == std::set<std::string>{"error 0 weight aten::div_ write"});
}

TEST_CASE("Any write to a pending gradient is told, also through a view") {
  CHECK(findings_of([](const Group& group, at::Tensor gradient) {
          const Work work = reduce(group, gradient);
          gradient.view(-1).slice(0, 2, 4).clamp_(-1, 1);
          work->wait();
        }) == std::set<std::string>{"error 0 weight aten::clamp_ write"});
}

TEST_CASE("A pending gradient that is read is told") {
  CHECK(findings_of([](const Group& group, at::Tensor gradient) {
          const Work work = reduce(group, gradient);
          const at::Tensor norm = gradient.norm();
          work->wait();
        }) == std::set<std::string>{"error 0 weight aten::norm read"});
}

TEST_CASE("A step with a pending gradient is told") {
  std::vector<Work> kept;
  CHECK(findings_of([&](const Group& group, at::Tensor gradient) {
          if (!kept.empty()) kept.back()->wait();
          kept.push_back(reduce(group, gradient));
        }) == std::set<std::string>{"error 0 weight  step"});
}

TEST_CASE("A buffer of gradients that is divided before the wait is told") {
  CHECK(findings_of(
            [](const Group& group, at::Tensor gradient) {
              const at::Tensor flat = gradient.reshape(-1).clone();
              const Work work = reduce(group, flat);
              flat.div_(2);
              work->wait();
              gradient.copy_(flat.view_as(gradient));
            },
            64) == std::set<std::string>{"error   aten::div_ write"});
}

TEST_CASE("Gradients that are used when their call has ended are not told") {
  Average average;
  SECTION("after the wait") {
    average = [](const Group& group, at::Tensor gradient) {
      reduce(group, gradient)->wait();
      gradient.div_(2);
    };
  }
  SECTION("after the program has asked for the end") {
    average = [](const Group& group, at::Tensor gradient) {
      const Work work = reduce(group, gradient);
      while (!work->isCompleted()) std::this_thread::yield();
      gradient.div_(2);
    };
  }
  SECTION("by the call itself, which copies its result there") {
    average = [](const Group& group, at::Tensor gradient) {
      at::Tensor all = gradient.reshape(-1).clone();
      at::Tensor own = gradient.view(-1).slice(0, 0, gradient.numel() / 2);
      group->_reduce_scatter_base(own, all)->wait();
    };
  }
  SECTION("in what follows the future") {
    average = [](const Group& group, at::Tensor gradient) {
      const auto future = reduce(group, gradient)->getFuture();
      future->wait();
      gradient.div_(2);
    };
  }
  SECTION("or only their shape or layout, or another part of the buffer") {
    average = [](const Group& group, at::Tensor gradient) {
      const at::Tensor both = torch::stack({gradient, gradient});
      gradient.set_data(both[0]);
      const Work work = reduce(group, gradient);
      const at::Tensor like = torch::zeros_like(gradient);
      const at::Tensor view = gradient.view(-1).detach();
      both[1].mul_(2);
      work->wait();
      gradient.div_(2);
    };
  }
  CHECK(findings_of(average).empty());
}

}  // namespace ddpscope::test
