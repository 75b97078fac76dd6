// Ranks that wait for one that never comes, and what each has left when it is killed.
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "model/clock.h"
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

/// A loop of which each part may be another one; steps count from 1.
struct LoopParts {
  Options options = soon();
  std::function<void(int step)> before = [](int) {};
  std::function<at::Tensor(Net& net, int step)> loss = [](Net& net, int) { return net->loss(); };
  std::function<bool(int step)> averages = [](int) { return true; };
  std::function<void(Net& net, int step)> after_average = [](Net&, int) {};
  std::function<void(Net& net, int step)> after = [](Net&, int) {};
};

int train_in_parts(const Place& place, const LoopParts& loop) {
  const Group group = place.group();
  Net net;
  attach_diagnostics(net, loop.options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 1; step <= 10; ++step) {
    loop.before(step);
    optimizer.zero_grad();
    loop.loss(net, step).backward();
    for (const at::Tensor& parameter : net->parameters()) {
      if (!loop.averages(step) || !parameter.grad().defined()) continue;
      all_reduce(group, parameter.grad());
      parameter.grad().div_(place.ranks);
    }
    loop.after_average(net, step);
    optimizer.step();
    loop.after(net, step);
  }
  return 0;
}

void stand_still() { std::this_thread::sleep_for(milliseconds(60'000)); }

/// Rank 1 leaves its loop early, and lives on.
int train_unevenly(const Place& place) {
  return train_in_parts(place, {.before = [&](int step) {
                          if (place.rank == 1 && step > kStepsOfRankOne) stand_still();
                        }});
}

/// Gradients are averaged in each third step, to which rank 1 does not come.
int average_now_and_then(const Place& place) {
  return train_in_parts(place, {.before =
                                    [&](int step) {
                                      if (place.rank == 1 && step == 2) stand_still();
                                    },
                                .averages = [](int step) { return step % 3 == 0; }});
}

/// In the third step rank 1 does without its second layer, and then stands still.
int skip_on_rank_one(const Place& place) {
  const auto skips = [&](int step) { return place.rank == 1 && step == 3; };
  return train_in_parts(place, {.loss =
                                    [&](Net& net, int step) {
                                      return skips(step) ? net->first(input()).square().mean()
                                                         : net->loss();
                                    },
                                .after_average =
                                    [&](Net&, int step) {
                                      if (skips(step)) stand_still();
                                    }});
}

/// After the fourth step one rank evaluates for seven seconds.
int evaluate_for_long(const Place& place, int rank, const Options& options) {
  return train_in_parts(place, {.options = options, .after = [&](Net& net, int step) {
                                  const torch::NoGradGuard no_grad;
                                  for (int i = 0; i < 70 && step == 4 && place.rank == rank; ++i) {
                                    net->loss();
                                    std::this_thread::sleep_for(milliseconds(100));
                                  }
                                }});
}

std::vector<std::string> stalls() {
  std::vector<std::string> found;
  for (const std::string& line : records("progress")) {
    if (nlohmann::json::parse(line).at("reason") == "stall") found.push_back(line);
  }
  return found;
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

TEST_CASE("A hang is named two seconds after its limit, and again when it is twice as old") {
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  const auto age_of_call = [] { return unix_ns() - read_ring(ring_path(0)).calls.back().unix_ns; };
  const auto words = [] { return nlohmann::json::parse(found_hangs().back()).at("what"); };
  Ranks ranks(2, train_unevenly);
  wait_for([] { return !stalls().empty(); });
  wait_for([] { return !found_hangs().empty(); });
  CHECK(age_of_call() < 3 * kSecondNs);  // hang_after_s and two
  const std::string first = words();
  CHECK(wait_for([] { return found_hangs().size() == 2; }) < 4000);
  CHECK(stalls().size() >= 2);
  const std::string second = words();
  INFO(first << "; " << second);
  CHECK(first != second);
  CHECK(second.find("rank 0 waits") == 0);
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

TEST_CASE("That a rank skipped a head is told while the others wait for its gradients") {
  Ranks ranks(2, skip_on_rank_one);
  CHECK(wait_for([] { return !found_of("grad-unused-rank-differs").empty(); }) < 8000);
  REQUIRE(found_of("grad-unused-rank-differs").size() == 1);
  const auto unused = nlohmann::json::parse(found_of("grad-unused-rank-differs").front());
  CHECK(unused.at("what") == "2 parameters got no gradient on rank 1 and did on rank 0");
  CHECK(unused.at("severity") == "error");
  CHECK(unused.at("step") == 3);
  CHECK(unused.at("module_path") == "second");
  CHECK(unused.at("facts").at("cause_per_rank") == nlohmann::json::array({"1: not_used"}));
}

TEST_CASE(
    "An evaluation on rank 0 that the others wait for is silent, however long below the limit") {
  const auto program = [](const Place& place) { return evaluate_for_long(place, 0, quiet()); };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  CHECK(stalls().empty());
  for (const std::string& line : records("finding")) {
    CHECK(nlohmann::json::parse(line).at("severity") == "note");
  }
}

TEST_CASE("A rank that evaluates for longer than the limit is slow, and not stuck") {
  const auto program = [](const Place& place) { return evaluate_for_long(place, 1, soon()); };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  REQUIRE(!found_hangs().empty());
  for (const std::string& line : found_hangs()) {
    const auto hang = nlohmann::json::parse(line);
    CHECK(hang.at("facts").at("state") == "slow");
    CHECK(hang.at("severity") == "warning");
  }
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
