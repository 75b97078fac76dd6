// What a rank notes of the collectives that it issues.
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
using Tensors = std::vector<at::Tensor>;

std::vector<NotedCall> calls_of(int rank) {
  const RingLeft left = read_ring(ring_path(rank));
  REQUIRE(left.error == "");
  return left.calls;
}

std::vector<std::string> owners_of(int rank) {
  std::vector<std::string> owners;
  for (const NotedCall& call : calls_of(rank)) owners.push_back(call.owner);
  return owners;
}

Options at_level(const std::string& level) {
  Options options = quiet();
  options.level = level;
  return options;
}

Tensors full(std::int64_t elements, int count = 1) {
  Tensors list;
  for (int i = 0; i < count; ++i) list.push_back(torch::ones(elements));
  return list;
}

/// Each kind of call once, with different numbers of elements.
void call_each(const Group& group, int rank) {
  Tensors a = full(1), b = full(2, 2), c = full(3), d = full(4), e = full(5), f = full(6);
  group->allreduce(a)->wait();
  group->allreduce_coalesced(b)->wait();
  c10d::BroadcastOptions from_one;
  from_one.rootRank = 1;
  group->broadcast(c, from_one)->wait();
  c10d::ReduceOptions largest;
  largest.reduceOp = c10d::ReduceOp::MAX;
  group->reduce(d, largest)->wait();
  std::vector<Tensors> gathered = {full(5, 2)};
  group->allgather(gathered, e)->wait();
  at::Tensor whole = torch::ones(12);
  group->_allgather_base(whole, f[0])->wait();
  std::vector<Tensors> of_root;
  if (rank == 0) of_root = {full(7, 2)};
  Tensors g = full(7);
  group->gather(of_root, g)->wait();
  std::vector<Tensors> parts;
  if (rank == 0) parts = {full(8, 2)};
  Tensors h = full(8);
  group->scatter(h, parts)->wait();
  at::Tensor out = torch::ones(18), in = torch::ones(18);
  std::vector<std::int64_t> even;
  group->alltoall_base(out, in, even, even)->wait();
  Tensors message = full(10);
  (rank == 0 ? group->send(message, 1, 0) : group->recv(message, 0, 0))->wait();
  group->barrier()->wait();
}
}  // namespace

TEST_CASE("Every kind of call is noted once, on every rank") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    Net net;
    attach_diagnostics(net, quiet());
    call_each(group, place.rank);
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const std::vector<std::string> kinds = {"all_reduce", "all_reduce", "broadcast", "reduce",
                                          "all_gather", "all_gather", "gather",    "scatter",
                                          "all_to_all", "send",       "barrier"};
  const std::vector<std::uint64_t> elements = {1, 4, 3, 4, 5, 6, 7, 8, 18, 10, 0};
  for (const int rank : {0, 1}) {
    const std::vector<NotedCall> calls = calls_of(rank);
    REQUIRE(calls.size() == kinds.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      INFO("rank " << rank << ", call " << i);
      const NotedCall& call = calls[i];
      CHECK(call.kind == (rank == 1 && kinds[i] == "send" ? "receive" : kinds[i]));
      CHECK(call.seq == (kinds[i] == "send" ? 1 : kinds[i] == "barrier" ? i : i + 1));
      CHECK(call.group == calls_of(0)[0].group);
      CHECK(call.group_size == 2);
      CHECK(call.elements == elements[i]);
      CHECK(call.list == (kinds[i] == "barrier" ? 0 : i == 1 ? 2 : 1));
      CHECK(call.state == "completed");
      CHECK(call.dtype == (kinds[i] == "barrier" ? "" : "float32"));
      CHECK(call.unix_ns > 1'600'000'000'000'000'000);
    }
    CHECK(calls[0].file.ends_with("collectives_test.cpp"));
    CHECK(calls[0].line > 0);
    CHECK(calls[0].line < calls[9].line);
    CHECK(calls[0].reduce == "sum");
    CHECK(calls[3].reduce == "max");
    CHECK(calls[2].reduce == "-");
    CHECK(calls[2].root == 1);
    CHECK(calls[0].root == -1);
    CHECK(calls[9].root == 1 - rank);
  }
}

TEST_CASE("A large sum between the forward and the optimizer is a bucket of gradients") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    const auto flat = [&net](bool of_gradients) {
      torch::NoGradGuard no_grad;
      std::vector<at::Tensor> parts;
      for (const at::Tensor& one : net->parameters()) {
        parts.push_back((of_gradients ? one.grad() : one).reshape(-1));
      }
      return torch::cat(parts);
    };
    all_reduce(group, flat(false));
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      net->loss().backward();
      all_reduce(group, flat(true));
      all_reduce(group, torch::ones(8));                // a metric
      all_reduce(group, torch::ones(1000, at::kLong));  // counts
      optimizer.step();
      all_reduce(group, flat(false));
    }
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const std::vector<std::string> expected = {"", "bucket", "", "", "", "bucket", "", "", ""};
  CHECK(owners_of(0) == expected);
  CHECK(owners_of(1) == expected);
  const std::vector<std::string> steps = records("step");
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].find(R"("collectives":4,"seq":4)") != std::string::npos);
  CHECK(steps[1].find(R"("collectives":4,"seq":8)") != std::string::npos);
}

TEST_CASE("Calls are named after the parameters and gradients that they are given") {
  const std::string level = GENERATE("watch", "values");
  Ranks ranks(2, [&](const Place& place) {
    const Group group = place.group();
    Net net;
    attach_diagnostics(net, at_level(level));
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    torch::NoGradGuard no_grad;
    broadcast(group, net->first->weight);
    broadcast(group, net->second->bias.detach());
    for (int step = 0; step < 3; ++step) {
      {
        const at::AutoGradMode grad(true);
        optimizer.zero_grad();
        net->loss().backward();
      }
      for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
      optimizer.step();
    }
    all_reduce(group, torch::ones(3));
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  std::vector<std::string> expected = {"first.weight", "second.bias"};
  for (int step = 0; step < 3; ++step) {
    for (const char* name : {"first.weight", "first.bias", "second.weight", "second.bias"}) {
      expected.push_back(std::string(name) + ".grad");
    }
  }
  expected.push_back("");
  CHECK(owners_of(0) == expected);
  CHECK(owners_of(1) == expected);
  const std::vector<NotedCall> calls = calls_of(1);
  CHECK(calls[0].step == 1);
  CHECK(calls[3].step == 1);
  CHECK(calls[3].phase == "reduce");
  CHECK(calls[7].step == 2);
}

TEST_CASE("Groups have numbers of their own, equal on their ranks") {
  const bool attaches_first = GENERATE(true, false);
  Ranks ranks(2, [&](const Place& place) {
    Net net;
    if (attaches_first) attach_diagnostics(net, quiet());
    const auto prefixed = [&](const char* prefix) {
      return place.group(c10::make_intrusive<c10d::PrefixStore>(prefix, place.store));
    };
    const Group all = place.group();
    const Group of_gradients = prefixed("gradients");
    const Group of_metrics = prefixed("metrics");
    if (!attaches_first) attach_diagnostics(net, quiet());
    for (const Group& group : {all, of_gradients, of_metrics, of_gradients}) {
      all_reduce(group, torch::ones(2));
    }
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  std::vector<std::uint64_t> groups[2];
  for (const int rank : {0, 1}) {
    for (const NotedCall& call : calls_of(rank)) {
      groups[rank].push_back(call.group);
    }
    REQUIRE(groups[rank].size() == 4);
    CHECK(calls_of(rank)[3].seq == 2);
  }
  CHECK(groups[0] == groups[1]);
  CHECK(groups[0][0] != groups[0][1]);
  CHECK(groups[0][1] != groups[0][2]);
  CHECK(groups[0][0] != groups[0][2]);
  CHECK(groups[0][1] == groups[0][3]);
}

TEST_CASE("A call that the backend refuses failed, and what it threw reaches the program") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    Net net;
    attach_diagnostics(net, quiet());
    Tensors list = {torch::ones(2), torch::ones(3)};
    try {
      group->allreduce(list)->wait();
      return 1;
    } catch (const std::exception& error) {
      const bool says_why = std::string(error.what()).find("size") != std::string::npos;
      return says_why ? 0 : 2;
    }
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const std::vector<NotedCall> calls = calls_of(0);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].state == "failed");
}

TEST_CASE("A call that a ProcessGroup passes on is noted once, and its end without a wait") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    auto outer = c10::make_intrusive<c10d::ProcessGroup>(place.store, place.rank, place.ranks);
    outer->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::GLOO, group);
    outer->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    Net net;
    attach_diagnostics(net, quiet());
    for (int i = 0; i < 20; ++i) {
      Tensors list = full(4);
      outer->allreduce(list)->getFuture()->wait();
    }
    group->barrier()->wait();
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const std::vector<NotedCall> calls = calls_of(1);
  REQUIRE(calls.size() == 21);
  for (const NotedCall& call : calls) CHECK(call.state == "completed");
}

TEST_CASE("Gradients that are reduced as one list are found") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      net->forward(torch::randn({2, 4})).square().mean().backward();
      Tensors weights = {net[0]->as<torch::nn::Linear>()->weight.grad(),
                         net[1]->as<torch::nn::Linear>()->weight.grad()};
      group->allreduce(weights)->wait();
      optimizer.step();
    }
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const auto found = records("finding");
  const auto is_it = [](const std::string& line) {
    return nlohmann::json::parse(line).at("id") == "collective-multi-tensor";
  };
  const auto first = std::find_if(found.begin(), found.end(), is_it);
  REQUIRE(first != found.end());
  CHECK(nlohmann::json::parse(*first).at("what") ==
        "2 different gradients passed as one list; this backend adds them to each other");
}

}  // namespace ddpscope::test
