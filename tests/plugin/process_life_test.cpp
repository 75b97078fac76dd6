// How ddpscope behaves where a process ends, forks or cannot write.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::optim::SGD;

// Has one error from step 2 on.
struct Faulty : torch::nn::Module {
  at::Tensor loss() { return (body(torch::randn({5, 8})) * scale).square().mean(); }
  void run(const Options& options) {
    attach_diagnostics(*this, options);
    SGD optimizer(parameters(), 0.01);
    test::train(optimizer, [this] { return loss(); });
  }
  Linear body = register_module("body", Linear(8, 8));
  at::Tensor scale = torch::ones({8}, torch::requires_grad());
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The findings about `work`, which throws on a thread where no handler waits.
std::string found_of(const std::function<void(Net&)>& work) {
  const Outcome outcome = in_child([&work] {
    std::set_terminate([] { _exit(42); });
    Net net;
    attach_diagnostics(net, quiet());
    std::thread([&] { work(net); }).join();
    return 0;
  });
  CHECK(outcome.exit_code == 42);
  std::string found;
  for (const std::string& finding : records("finding")) found += finding;
  return found;
}
}  // namespace

TEST_CASE("The exit code of a clean return is the one that was asked for") {
  Options options = quiet();
  options.exit_code = 7;
  CHECK(in_child([&] { return Faulty().run(options), 0; }).exit_code == 7);
}

TEST_CASE("The exit code of a failing program stays its own") {
  Options options = quiet();
  options.exit_code = 7;
  CHECK(in_child([&] { return Faulty().run(options), 3; }).exit_code == 3);
}

TEST_CASE("A correct program keeps its exit code") {
  Options options = quiet();
  options.exit_code = 7;
  const Outcome outcome = in_child([&] {
    Net net;
    attach_diagnostics(net, options);
    SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&] { return net->loss(); });
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.said == "");
}

TEST_CASE("A finding survives terminate and the earlier handler runs") {
  const Outcome outcome = in_child([] {
    std::set_terminate([] { _exit(42); });
    Faulty().run(quiet());
    std::terminate();
    return 0;
  });
  CHECK(outcome.exit_code == 42);
  CHECK(records("finding").size() >= 1);
  CHECK(records("progress").size() == 1);
  CHECK(records("summary").empty());
}

TEST_CASE("An exception that nobody catches is written down") {
  const Outcome outcome = in_child([] {
    std::set_terminate([] { _exit(42); });
    Faulty net;
    attach_diagnostics(net, quiet());
    [&]() noexcept { net.body(torch::ones({5, 9})); }();
    return 0;
  });
  CHECK(outcome.exit_code == 42);
  REQUIRE(records("progress").size() == 1);
  CHECK(contains(records("progress")[0], "mat1 and mat2"));
  CHECK(contains(records("progress")[0], R"("exception":"c10::Error")"));
  CHECK_FALSE(contains(records("progress")[0], "Exception raised from"));
}

TEST_CASE("What an operator threw is decided when nobody catches it") {
  in_child([] {
    std::set_terminate([] { _exit(42); });
    Faulty net;
    attach_diagnostics(net, quiet());
    [&]() noexcept { net.body(torch::ones({5, 9})); }();
    return 0;
  });
  REQUIRE(records("finding").size() >= 1);
  CHECK(contains(records("finding")[0], "module-operator-failed"));
}

TEST_CASE("What is thrown where nothing is unwound is found") {
  CHECK(contains(found_of([](Net& net) { net->first->weight.mul_(2); }), "autograd-leaf-inplace"));
  CHECK(contains(found_of([](Net& net) {
                   net->forward(torch::ones({5, 9}));
                 }),
                 "module-operator-failed"));
  CHECK(contains(found_of([](Net& net) {
                   const at::Tensor loss = net->loss();
                   loss.backward();
                   loss.backward();
                 }),
                 "autograd-double-backward"));
}

TEST_CASE("An exit with another code than 0 is noted and not clean") {
  CHECK(in_child([] { return Faulty().run(quiet()), 3; }).exit_code == 3);
  REQUIRE(records("progress").size() == 1);
  CHECK(contains(records("progress")[0], R"("reason":"exit")"));
  CHECK(contains(records("progress")[0], R"("code":3)"));
  REQUIRE(records("summary").size() == 1);
  CHECK(contains(records("summary")[0], R"("clean_exit":false)"));
}

TEST_CASE("A signal that ends the process is noted with step and phase") {
  const Outcome outcome = in_child([] {
    Faulty().run(quiet());
    raise(SIGTERM);
    return 0;
  });
  CHECK(outcome.exit_code == -1);
  REQUIRE(records("progress").size() == 1);
  CHECK(contains(records("progress")[0], R"("signal":"SIGTERM")"));
  CHECK(contains(records("progress")[0], R"("step":9,"phase":"forward")"));
}

TEST_CASE("Findings survive an immediate exit after a flush") {
  const Outcome outcome = in_child([] {
    Faulty().run(quiet());
    flush();
    _exit(5);
    return 0;
  });
  CHECK(outcome.exit_code == 5);
  CHECK(records("finding").size() >= 1);
}

TEST_CASE("A forked child is plain") {
  const Outcome outcome = in_child([] {
    Options options = quiet();
    options.exit_code = 7;
    Faulty().run(options);
    const Outcome child = in_child([] {
      Faulty net;
      attach_diagnostics(net, quiet());
      const bool plain = findings().empty() && flush().files.empty();
      return plain ? 0 : 1;
    });
    return child.exit_code == 0 && child.said.empty() ? 0 : 2;
  });
  CHECK(outcome.exit_code == 7);
  CHECK(records("summary").size() == 1);
}

TEST_CASE("A report folder that cannot be written costs one line") {
  const std::string file = report_dir() + "/file";
  std::fclose(std::fopen(file.c_str(), "w"));
  const Outcome outcome = in_child([&] {
    Options options = quiet();
    options.report_dir = file + "/below";
    Net net;
    attach_diagnostics(net, options);
    SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&] { return net->loss(); });
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.said, file));
  CHECK(std::count(outcome.said.begin(), outcome.said.end(), '\n') == 1);
}

TEST_CASE("A finding that cannot be written goes to stderr") {
  const std::string file = report_dir() + "/file";
  std::fclose(std::fopen(file.c_str(), "w"));
  const Outcome outcome = in_child([&] {
    Options options = quiet();
    options.report_dir = file + "/below";
    return Faulty().run(options), 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.said, "[module-unregistered]"));
}

TEST_CASE("A clean exit writes the page and the summary") {
  CHECK(in_child([] { return Faulty().run(quiet()), 0; }).exit_code == 0);
  REQUIRE(records("summary").size() == 1);
  CHECK(contains(records("summary")[0], R"("clean_exit":true)"));
  CHECK(std::filesystem::exists(report_dir() + "/report.html"));
}

}  // namespace ddpscope::test
