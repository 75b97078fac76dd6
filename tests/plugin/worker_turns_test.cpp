// Who judges: the training thread while the program has no other, then a thread of ddpscope.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/support/torch_test.h"

namespace ddpscope::test::worker_turns_test {
namespace {
using nlohmann::json;
constexpr int kSteps = 40;
std::atomic<bool> has_no_more_threads{false};
}  // namespace
}  // namespace ddpscope::test::worker_turns_test

/// Stands before that of libc, so that a process can have no more threads.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  if (ddpscope::test::worker_turns_test::has_no_more_threads) return EAGAIN;
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}

namespace ddpscope::test::worker_turns_test {
namespace {

/// Names of the threads of this process.
std::multiset<std::string> threads() {
  std::multiset<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name)) names.insert(name);
  }
  return names;
}

bool has_worker() { return threads().contains("ddpscope"); }

/// Soon: a thread gets its name when it runs.
bool gets_worker() {
  for (int i = 0; i < 2000 && !has_worker(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return has_worker();
}

Options of_one_thread() {
  at::set_num_threads(1);
  return quiet();
}

json summary_record() {
  const auto summaries = records("summary");
  REQUIRE(summaries.size() == 1);
  return json::parse(summaries[0]);
}

/// Steps of 10 ms, of which judging takes little.
void train_slowly(torch::optim::Optimizer& optimizer, Net& net, int steps) {
  const auto loss = [&net] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return net->loss();
  };
  train(optimizer, loss, steps);
}

/// A result for `in_child`: 0 only where all held.
class Held {
 public:
  void operator()(bool holds) {
    ++asked_;
    if (!holds && first_wrong_ == 0) first_wrong_ = asked_;
  }
  int first_wrong() const { return first_wrong_; }

 private:
  int asked_ = 0;
  int first_wrong_ = 0;
};

/// Of one thread, in a child.
using Body = std::function<void(torch::optim::Optimizer&, Net&, Held&)>;
void check_held(const Body& body) {
  const Outcome outcome = in_child([&body] {
    Held held;
    Net net;
    attach_diagnostics(net, of_one_thread());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    body(optimizer, net, held);
    return held.first_wrong();
  });
  CAPTURE(outcome.said);
  CHECK(outcome.exit_code == 0);
}
}  // namespace

TEST_CASE("A program of one thread gets no second one, and all is judged") {
  check_held([](torch::optim::Optimizer& optimizer, Net& net, Held& held) {
    train_slowly(optimizer, net, kSteps);
    held(threads().size() == 1);
    held(flush().files.size() == 1);
    held(records("step").size() == kSteps);
    held(threads().size() == 1);
  });
  CHECK(summary_record()["steps"] == kSteps);
  CHECK(summary_record()["events_dropped"] == 0);
}

TEST_CASE("A thread of the program lets ddpscope have its own") {
  check_held([](torch::optim::Optimizer& optimizer, Net& net, Held& held) {
    train_slowly(optimizer, net, kSteps);
    held(!has_worker());
    std::thread([] {}).join();
    train_slowly(optimizer, net, 1);
    held(gets_worker());
    train_slowly(optimizer, net, kSteps);
  });
  CHECK(summary_record()["steps"] == 2 * kSteps + 1);
  CHECK(records("step").size() > kSteps);
}

TEST_CASE("A finding in a program of one thread is said while it trains") {
  const Outcome outcome = in_child([] {
    Held held;
    Side net;
    Options options = of_one_thread();
    options.console = "full";
    attach_diagnostics(net, options);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(
        optimizer, [&net] { return net->main_loss(); }, kSteps);
    held(gets_worker());
    held(flush().warnings > 0);
    _exit(held.first_wrong());  // nothing is said at the end
    return 1;
  });
  CAPTURE(outcome.said);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.said.find("grad-missing") != std::string::npos);
}

TEST_CASE("Steps that are hardly longer than judging them are judged beside them") {
  check_held([](torch::optim::Optimizer& optimizer, Net& net, Held& held) {
    const auto loss = [&net] { return net->loss(); };
    train(optimizer, loss, 8);
    held(!has_worker());
    train(optimizer, loss, 192);
    held(gets_worker());
  });
  CHECK(summary_record()["steps"] == 200);
}

TEST_CASE("A step of more than a second is judged by a thread of ddpscope") {
  check_held([](torch::optim::Optimizer&, Net& net, Held& held) {
    net->loss();
    held(!has_worker());
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    net->loss();
    held(gets_worker());
  });
}

TEST_CASE("Many events between two places for a turn are judged by a thread of ddpscope") {
  check_held([](torch::optim::Optimizer& optimizer, Net&, Held& held) {
    for (int i = 0; i < 100; ++i) optimizer.zero_grad();
    held(!has_worker());
    for (int i = 0; i < 40'000; ++i) optimizer.zero_grad();
    held(gets_worker());
  });
  CHECK(summary_record()["events_dropped"] == 0);
}

TEST_CASE("Where a process can have no more threads the training thread judges") {
  const Outcome outcome = in_child([] {
    Held held;
    Side net;
    Options options = of_one_thread();
    options.console = "full";
    std::thread([] {}).join();  // from here on the program may have others
    has_no_more_threads = true;
    attach_diagnostics(net, options);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(
        optimizer, [&net] { return net->main_loss(); }, kSteps);
    held(!has_worker());
    held(flush().warnings > 0);
    held(records("step").size() == kSteps);
    return held.first_wrong();
  });
  CAPTURE(outcome.said);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.said.find("grad-missing") != std::string::npos);
  CHECK(summary_record()["steps"] == kSteps);
  CHECK(summary_record()["events_dropped"] == 0);
}

TEST_CASE("What a program of one thread throws is judged with all that came before") {
  const Outcome outcome = in_child([] {
    Side net;
    attach_diagnostics(net, of_one_thread());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&net] { return net->main_loss(); });
    std::thread([] { throw std::runtime_error("no more data"); }).join();
    return 0;
  });
  CAPTURE(outcome.said);
  CHECK(outcome.signal == SIGABRT);
  CHECK(!records("finding").empty());
  const auto progress = records("progress");
  REQUIRE(progress.size() == 1);
  CHECK(json::parse(progress[0])["step"] == 9);
}

}  // namespace ddpscope::test::worker_turns_test
