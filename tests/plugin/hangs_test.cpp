// Ranks that wait for one that never comes, and what each has left when it is killed.
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
using std::chrono::milliseconds;
constexpr int kStepsOfRankOne = 3;

Options soon() {
  Options options = quiet();
  options.hang_after_s = 1;
  return options;
}

/// Rank 1 leaves its loop early, and lives on.
int train_unevenly(const Place& place) {
  const Group group = place.group();
  Net net;
  attach_diagnostics(net, soon());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 0; step < 10; ++step) {
    if (place.rank == 1 && step == kStepsOfRankOne)
      std::this_thread::sleep_for(milliseconds(60'000));
    optimizer.zero_grad();
    net->loss().backward();
    for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
    optimizer.step();
  }
  return 0;
}

std::vector<std::string> stalls() {
  std::vector<std::string> found;
  for (const std::string& line : records("progress")) {
    if (nlohmann::json::parse(line).at("reason") == "stall") found.push_back(line);
  }
  return found;
}

/// Gradients are averaged in each third step, to which rank 1 does not come.
int average_now_and_then(const Place& place) {
  const Group group = place.group();
  Net net;
  attach_diagnostics(net, soon());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 1; step <= 9; ++step) {
    if (place.rank == 1 && step == 2) std::this_thread::sleep_for(milliseconds(60'000));
    optimizer.zero_grad();
    net->loss().backward();
    if (step % 3 == 0) {
      for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
    }
    optimizer.step();
  }
  return 0;
}

std::vector<std::string> found_of(const char* id) {
  std::vector<std::string> found;
  for (const std::string& line : records("finding")) {
    if (nlohmann::json::parse(line).at("id") == id) found.push_back(line);
  }
  return found;
}
std::vector<std::string> found_hangs() { return found_of("collective-hang"); }

/// Until `done`, at most for some seconds; in how many ms.
std::int64_t wait_for(const std::function<bool()>& done) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 500 && !done(); ++i) std::this_thread::sleep_for(milliseconds(20));
  return (std::chrono::steady_clock::now() - begin) / milliseconds(1);
}
}  // namespace

TEST_CASE("A rank that waits in a collective says so while it hangs") {
  Ranks ranks(2, train_unevenly);
  CHECK(wait_for([] { return !stalls().empty(); }) < 8000);
  REQUIRE(stalls().size() == 1);
  const auto stall = nlohmann::json::parse(stalls().front());
  CHECK(stall.at("op") == "all_reduce");
  CHECK(stall.at("step") == kStepsOfRankOne + 1);
  CHECK(stall.at("phase") == "reduce");
  const std::string what = stall.at("what");
  INFO(what);
  CHECK(what.find("has waited 1") == 0);
  CHECK(what.find("in all_reduce 13 of first.weight.grad (float32[128], group ") !=
        std::string::npos);
}

TEST_CASE("The rank that never came is named while the others still wait") {
  Ranks ranks(2, train_unevenly);
  wait_for([] { return !stalls().empty(); });
  CHECK(wait_for([] { return !found_hangs().empty(); }) < 2500);
  REQUIRE(found_hangs().size() == 1);
  const auto hang = nlohmann::json::parse(found_hangs().front());
  CHECK(hang.at("severity") == "error");
  CHECK(hang.at("op") == "all_reduce");
  CHECK(hang.at("module_path") == "first");
  CHECK(hang.at("subject") == "weight");
  CHECK(hang.at("step") == kStepsOfRankOne + 1);
  CHECK(hang.at("rank") == 1);
  std::ifstream flight(report_dir() + "/rank-0.flight.json");
  CHECK(nlohmann::json::parse(flight).contains("entries"));
}

TEST_CASE("A rank that is steps behind is named while the others wait") {
  Ranks ranks(2, average_now_and_then);
  wait_for([] { return !stalls().empty(); });
  CHECK(wait_for([] { return !found_of("rank-step-lag").empty(); }) < 5000);
  REQUIRE(found_of("rank-step-lag").size() == 1);
  const auto lag = nlohmann::json::parse(found_of("rank-step-lag").front());
  CHECK(lag.at("what") == "rank 1 is 2 backwards behind: rank 0 waits in that of backward 3");
  CHECK(lag.at("severity") == "warning");
}

TEST_CASE("Killed ranks leave the call that one of them never issued") {
  {
    Ranks ranks(2, train_unevenly);
    wait_for([] { return !stalls().empty(); });
    ranks.kill(0);
    ranks.kill(1);
    ranks.exit_codes();
  }
  const RingLeft waiting = read_ring(ring_path(0));
  const RingLeft absent = read_ring(ring_path(1));
  REQUIRE(waiting.calls.size() == 13);
  REQUIRE(absent.calls.size() == 12);
  CHECK(waiting.calls[12].state == "issued");
  CHECK(waiting.calls[11].state == "completed");
  CHECK(waiting.calls[12].owner == "first.weight.grad");
  CHECK(absent.calls[11].group == waiting.calls[11].group);
  CHECK_FALSE(waiting.ended);
  CHECK(waiting.step == 4);
}

}  // namespace ddpscope::test
