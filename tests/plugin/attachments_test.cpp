// Attaching and detaching at odd moments: one attachment per model, never a fault of the program.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "tests/plugin/twin_runs.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::optim::SGD;

// Has one error from step 2 on.
struct LooseImpl : torch::nn::Module {
  at::Tensor loss() { return (body(torch::randn({5, 8})) * scale).square().mean(); }
  Linear body = register_module("body", Linear(8, 8));
  at::Tensor scale = torch::ones({8}, torch::requires_grad());
};
TORCH_MODULE(Loose);

std::string refusal(const std::function<void()>& attach) {
  try {
    attach();
  } catch (const SettingsError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Starts its threads at the same moment.
void at_once(const std::vector<std::function<void()>>& tasks) {
  std::atomic<std::size_t> ready{0};
  std::vector<std::thread> threads;
  for (const auto& task : tasks) {
    threads.emplace_back([&] {
      ++ready;
      while (ready < tasks.size()) std::this_thread::yield();
      task();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::set<std::string> model_names() {
  std::set<std::string> names;
  for (const std::string& line : records("model")) {
    names.insert(nlohmann::json::parse(line).at("name"));
  }
  return names;
}
}  // namespace

TEST_CASE("Attaching twice is one attachment and one detach ends it") {
  Loose net;
  Attachment first = attach_diagnostics(net, quiet());
  Attachment second = attach_diagnostics(*net, quiet());
  Attachment third = attach_diagnostics(net.ptr(), quiet());
  flush();
  CHECK(records("model").size() == 1);
  third.detach();
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_findings({});
  first.detach();
  second.detach();
}

TEST_CASE("Two models of one name are told apart") {
  Loose first;
  Loose second;
  attach_diagnostics(first, quiet()).name("net");
  attach_diagnostics(second, quiet()).name("net").name("net");
  flush();
  CHECK(model_names() == std::set<std::string>{"net", "net#2"});
}

TEST_CASE("A model takes the name of one that has died") {
  std::optional<Loose> first(std::in_place);
  Loose second;  // at another address
  attach_diagnostics(*first, quiet()).name("net");
  flush();
  first.reset();
  attach_diagnostics(second, quiet()).name("net");
  flush();
  CHECK(model_names() == std::set<std::string>{"net"});
}

TEST_CASE("A model can be attached again after a detach") {
  Loose net;
  attach_diagnostics(net, quiet()).detach();
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_findings({"module-unregistered error - tensor [8] - aten::mul"});
}

TEST_CASE("Nothing is found of a model that was detached or never attached") {
  Net net;
  Net other;
  attach_diagnostics(net, quiet()).detach();
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 0; step < 8; ++step) {
    net->loss().backward();
    optimizer.step();
  }
  CHECK(findings().empty());
  attach_diagnostics(other, quiet());
  torch::optim::SGD other_optimizer(other->parameters(), 0.01);
  for (int step = 0; step < 8; ++step) {
    other_optimizer.zero_grad();
    (other->loss() + net->loss()).backward();
    optimizer.step();
    other_optimizer.step();
  }
  for (const Finding& finding : findings()) CHECK(finding.model.empty());
}

TEST_CASE("Models of one class that live together have labels of their own") {
  Net first;
  Net second;
  Net third;
  Attachment attachment = attach_diagnostics(first, quiet());
  attach_diagnostics(second, quiet());
  attachment.detach();
  attach_diagnostics(third, quiet());
  for (Net net : {second, third}) {
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&] { return net->loss(); });
  }
  const auto models = records("model");
  REQUIRE(models.size() == 2);
  CHECK(nlohmann::json::parse(models[0])["name"] != nlohmann::json::parse(models[1])["name"]);
}

TEST_CASE("Two threads that attach one model make one attachment") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    std::vector<std::unique_ptr<NetImpl>> on_stack;
    for (int i = 0; i < 50; ++i) {
      NetImpl& net = *on_stack.emplace_back(std::make_unique<NetImpl>());
      const auto attach = [&] { attach_diagnostics(net, quiet()); };
      at_once({attach, attach, attach});
    }
    flush();
    if (records("model").size() % 50 != 0) return 1;
    Net net;
    attach_diagnostics(net, quiet());
    train_noted(notes, net);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Two threads that attach two models start one session") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    std::vector<Net> nets(4);
    std::vector<std::function<void()>> tasks;
    for (Net& net : nets) tasks.emplace_back([&] { attach_diagnostics(net, quiet()); });
    at_once(tasks);
    for (Net& net : nets) train_noted(notes, net);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(records("model").size() == 4);
}

TEST_CASE("Detaching inside a hook lets the backward end") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net;
    Attachment attachment = attach_diagnostics(net, quiet());
    train_noted(notes, net);
    const at::Tensor loss = net->loss();
    loss.register_hook([&](const at::Tensor&) { attachment.detach(); });
    loss.backward();
    train_noted(notes, net);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Attaching inside a hook lets the backward end") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net;
    const at::Tensor loss = net->loss();
    loss.register_hook([&](const at::Tensor&) { attach_diagnostics(net, quiet()); });
    loss.backward();
    train_noted(notes, net);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Detaching while another thread trains computes the same") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net;
    std::atomic<bool> done{false};
    std::thread other([&] {
      while (!done) attach_diagnostics(net, quiet()).name("again").detach();
    });
    train_noted(notes, net, 200);
    done = true;
    other.join();
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("A model that died is not detached twice and its place can be reused") {
  std::vector<Attachment> attachments;
  for (int i = 0; i < 20; ++i) {
    LooseImpl net;
    attachments.push_back(attach_diagnostics(net, quiet()));
  }
  for (Attachment& attachment : attachments) attachment.detach();
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("Empty holders and pointers are refused by name and nothing starts") {
  CHECK(refusal([] { attach_diagnostics(Net(nullptr), quiet()); }) ==
        "attach_diagnostics: the model is empty");
  CHECK(refusal([] { attach_diagnostics(std::shared_ptr<NetImpl>(), quiet()); }) ==
        "attach_diagnostics: the model is empty");
  CHECK(records("run").empty());
  Attachment().name("nothing").declare("*", Declaration::kExternal).detach();
}

TEST_CASE("Empty lists of tensors and empty handles are no fault") {
  Net net;
  SGD optimizer(net->parameters(), 0.01);
  Attachment attachment = attach_diagnostics(NamedTensors{}, quiet());
  attachment.watch_loss(at::Tensor()).watch(optimizer);
  attach_diagnostics(net, quiet());
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("The file that Options names is read") {
  unsetenv("DDPSCOPE");
  const std::string path = report_dir() + ".conf";
  std::ofstream(path) << "history=64\nexchange_every=5\n";
  Net net;
  Options options = quiet();
  options.config_file = path;
  options.history = 128;
  attach_diagnostics(net, options);
  flush();
  std::filesystem::remove(path);
  REQUIRE(records("run").size() == 1);
  const std::string run = records("run")[0];
  CHECK(says(run, R"("history":{"value":"128","source":"options"})"));
  CHECK(says(run, R"("exchange_every":{"value":"5","source":"config_file"})"));
}

TEST_CASE("Options of a later attach are held to the rules and told where they are not taken") {
  const Outcome outcome = in_child([] {
    unsetenv("DDPSCOPE");
    Net net;
    Loose other;
    attach_diagnostics(net, quiet());
    Options later = quiet();
    attach_diagnostics(other, later);  // says nothing: it asks for what is
    later.level = "everything";
    const bool is_refused = !refusal([&] { attach_diagnostics(other, later); }).empty();
    later.level = "watch";
    attach_diagnostics(other, later);
    attach_diagnostics(other, later);
    return is_refused ? 0 : 1;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(std::ranges::count(outcome.said, '\n') == 1);
  CHECK(says(outcome.said, R"(does not take level="watch" (it has "values"))"));
}

TEST_CASE("A tensor that a list of C leaves out is called by its name") {
  const Outcome outcome = in_child([] {
    const at::Tensor first = torch::ones({8});
    const char* const names[] = {"a.weight", "b"};
    const void* const tensors[] = {&first, nullptr};
    return ddpscope_attach_tensors(names, tensors, 2);
  });
  CHECK(outcome.exit_code == 1);
  CHECK(says(outcome.said, R"(tensor "b" is undefined)"));
}

}  // namespace ddpscope::test
