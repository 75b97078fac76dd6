// Collectives that write what a forward saved, past every version counter.
#include <cstring>
#include <fstream>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
struct ScaledImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return line(x) * scale; }
  torch::nn::Linear line = register_module("line", torch::nn::Linear(8, 4));
  at::Tensor scale = register_buffer("scale", torch::ones({4}));
};
TORCH_MODULE(Scaled);

using Between = std::function<void(const Place&, const Group&, Scaled&, at::Tensor& gate)>;

/// What rank 1 finds: nothing, or `id subject writer_kind writer_op`, a line each.
std::string found_on_rank_1(const Between& between) {
  const std::string told = report_dir() + "/told";
  Ranks ranks(2, [&](const Place& place) {
    const Group group = place.group();
    Scaled net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    torch::manual_seed(3 + place.rank);
    for (int step = 1; step <= 3; ++step) {
      const at::Tensor own = torch::full({4}, 1.0 + place.rank + step);  // the largest on rank 1
      std::memcpy(net->scale.data_ptr(), own.data_ptr(), own.nbytes());
      optimizer.zero_grad();
      at::Tensor gate = torch::sigmoid(net(input()));
      between(place, group, net, gate);
      gate.square().mean().backward();
      for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
      optimizer.step();
    }
    std::string text;
    for (const Finding& finding : findings()) {
      if (finding.id != "autograd-silent-overwrite") continue;
      text += finding.subject + " " + text_fact(finding, "writer_kind") + " " +
              text_fact(finding, "writer_op") + "\n" + finding.why + "\n";
    }
    if (place.rank == 1) std::ofstream(told) << text;
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  std::ifstream file(told);
  return {std::istreambuf_iterator<char>(file), {}};
}
}  // namespace

TEST_CASE("A buffer that is broadcast between forward and backward is named with the broadcast") {
  const std::string told = found_on_rank_1([](const Place&, const Group& group, Scaled& net,
                                              at::Tensor&) { broadcast(group, net->scale); });
  CAPTURE(told);
  CHECK(told.starts_with("scale collective broadcast\nbroadcast #"));
  CHECK(told.find("(collective_writes_test.cpp:") != std::string::npos);
}

TEST_CASE("An activation that is summed over ranks before its backward is found") {
  const std::string told =
      found_on_rank_1([](const Place&, const Group& group, Scaled&, at::Tensor& gate) {
        all_reduce(group, gate.detach());
      });
  CAPTURE(told);
  CHECK(told.starts_with(" collective all_reduce\nall_reduce #"));
}

TEST_CASE("Collectives that leave what was saved as it was are silent") {
  Between between;
  SECTION("a maximum that each rank has already") {
    between = [](const Place&, const Group& group, Scaled& net, at::Tensor&) {
      c10d::AllreduceOptions maximum;
      maximum.reduceOp = c10d::ReduceOp::MAX;
      std::vector<at::Tensor> one = {net->scale};
      group->allreduce(one, maximum)->wait();
    };
  }
  SECTION("a sum over ranks of a loss for the log, which no node saved") {
    between = [](const Place&, const Group& group, Scaled&, at::Tensor& gate) {
      all_reduce(group, gate.detach().mean());
    };
  }
  SECTION("a second broadcast of what was let go after the forward") {
    between = [](const Place& place, const Group& group, Scaled& net, at::Tensor&) {
      if (place.rank == 0) return broadcast(group, net->scale + 1);  // what rank 1 had
      std::memset(net->scale.data_ptr(), 0, net->scale.nbytes());
      broadcast(group, net->scale);
    };
  }
  SECTION("a broadcast of a copy") {
    between = [](const Place&, const Group& group, Scaled& net, at::Tensor&) {
      broadcast(group, net->line->weight.detach().clone());
    };
  }
  CHECK(found_on_rank_1(between).empty());
}

}  // namespace ddpscope::test
