// Cycles that are not watched: hooks that have nothing to do there are not even called, and what
// no later cycle could tell is told all the same.
#include <ATen/record_function.h>
#include <ddpscope/hooks.h>
#include <dlfcn.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/torch_test.h"

namespace ddpscope::test::rests_test {
namespace {
using nlohmann::json;

constexpr int kSteps = 3000;
constexpr int kFullCycles = 16;

using Work = std::function<void(Net&, int)>;
void nothing(Net&, int) {}

/// What a run of hardly a watched step leaves, with work of its own in each step.
json summary_of_rests(const Work& in_forward, const Work& after_backward) {
  const Outcome outcome = in_child([&] {
    at::set_num_threads(1);
    Options options = quiet();
    options.overhead = 0.1;
    options.full_cycles = kFullCycles;
    Net net;
    attach_diagnostics(net, options);
    torch::optim::SGD optimizer(net->parameters(), 1e-6);
    for (int step = 1; step <= kSteps; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = net->loss();
      in_forward(net, step);
      loss.backward();
      after_backward(net, step);
      optimizer.step();
    }
    return 0;
  });
  CAPTURE(outcome.said);
  REQUIRE(outcome.exit_code == 0);
  const auto summaries = records("summary");
  REQUIRE(summaries.size() == 1);
  json summary = json::parse(summaries[0]);
  REQUIRE(summary["overhead"]["grad-missing"]["coverage"].get<double>() < 0.5);
  return summary;
}

/// What the engine calls for what its nodes returned.
constexpr char kOutputs[] =
    "_ZN5torch8autograd16validate_outputsERKSt6vectorINS0_4EdgeESaIS2_EERS1_IN2at6TensorESaIS8_"
    "EERKSt8functionIFNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSI_EE";
constexpr char kEmbedding[] = "_ZN2at4_ops9embedding4callERKNS_6TensorES4_N3c106SymIntEbb";
constexpr char kLinear[] = "_ZN2at4_ops6linear4callERKNS_6TensorES4_RKSt8optionalIS2_E";

/// The library in which calls of that function end.
std::string called_in(const char* symbol) {
  using SlotOf = void**(const char*);
  auto* const slot_of = reinterpret_cast<SlotOf*>(dlsym(RTLD_DEFAULT, "ddpscope_gate_slot"));
  Dl_info place{};
  void** const slot = slot_of(symbol);
  if (slot == nullptr || dladdr(*slot, &place) == 0) return "";
  const std::string path = place.dli_fname;
  return path.substr(path.rfind('/') + 1);
}
}  // namespace

TEST_CASE("Where hooks rest, calls go straight to LibTorch") {
  const char* const function = GENERATE(kOutputs, kLinear);
  const json summary = summary_of_rests(
      [function, unhooked = 0](Net&, int step) mutable {
        const std::string library = called_in(function);
        if (step <= kFullCycles && !library.starts_with("libddpscope.so")) std::abort();
        if (library.starts_with("libtorch_cpu.so")) ++unhooked;
        if (step == kSteps && unhooked < kSteps / 2) std::abort();
      },
      nothing);
  CHECK(summary["errors"] == 0);
  CHECK(summary["warnings"] == 0);
}

TEST_CASE("A model that comes in a rest does not bring back the records of operators") {
  std::vector<Net> models;
  const json summary = summary_of_rests(
      [&](Net&, int step) {
        if (!called_in(kLinear).starts_with("libtorch_cpu.so")) return;
        if (step % 100 == 0) attach_diagnostics(models.emplace_back(), quiet());
        if (step == kSteps && models.empty()) std::abort();
        if (at::hasGlobalCallbacks()) std::abort();
      },
      nothing);
  CHECK(summary["errors"] == 0);
  CHECK(summary["warnings"] == 0);
}

/// Whether calls of layers and operators go straight to LibTorch.
bool hooks_rest() {
  return called_in(kLinear).starts_with("libtorch_cpu.so") && !at::hasGlobalCallbacks();
}

/// The calls of the net's two layers before hooks rest: at most that many.
constexpr int kManyCalls = 1 << 14;

/// Calls `once` until hooks rest. The number of calls.
int calls_before_rest(const std::function<void()>& once) {
  int calls = 0;
  while (!hooks_rest() && calls < kManyCalls) {
    once();
    ++calls;
  }
  return calls;
}

void attach_within_little(Net& net) {
  at::set_num_threads(1);
  Options options = quiet();
  options.overhead = 0.1;
  options.full_cycles = 1000;
  attach_diagnostics(net, options);
}

/// Trains, evaluates until hooks rest, and trains again.
void evaluate_for_long(bool with_graph) {
  Net net;
  attach_within_little(net);
  torch::optim::SGD optimizer(net->parameters(), 1e-6);
  train(
      optimizer, [&] { return net->loss(); }, 2);
  REQUIRE(at::hasGlobalCallbacks());  // the first steps are surveyed
  net->eval();
  {
    const torch::AutoGradMode mode(with_graph);
    const int calls = calls_before_rest([&] { net->loss(); });
    CHECK(calls > kManyCalls / 16);
    CHECK(calls < kManyCalls);
    net->loss();
    CHECK(hooks_rest());
  }
  net->train();
  const at::Tensor loss = net->loss();
  CHECK(called_in(kLinear).starts_with("libddpscope.so"));
  loss.backward();
  check_silent(1, 2);
}

TEST_CASE("Hooks rest in a long evaluation until the model trains again") {
  evaluate_for_long(/*with_graph=*/false);
}

TEST_CASE("Hooks rest in a long evaluation with grad mode on until the model trains again") {
  evaluate_for_long(/*with_graph=*/true);
}

TEST_CASE("Hooks rest in a program that only infers") {
  Net net;
  attach_within_little(net);
  const torch::NoGradGuard no_grad;
  const int calls = calls_before_rest([&] { net->loss(); });
  CHECK(calls > kManyCalls / 16);
  CHECK(calls < kManyCalls);
}

TEST_CASE("Hooks rest in a program that only infers and calls no layer") {
  Net net;
  attach_within_little(net);
  const torch::NoGradGuard no_grad;
  const int calls =
      calls_before_rest([&] { torch::linear(input(), net->first->weight).relu().sum(); });
  CHECK(calls > kManyCalls / 16);
  CHECK(calls < kManyCalls);
}

TEST_CASE("Hooks rest in a program that takes its gradients itself") {
  Net net;
  attach_within_little(net);
  const std::vector<at::Tensor> parameters = net->parameters();
  const int calls = calls_before_rest([&] {
    const auto gradients = torch::autograd::grad({net->loss()}, parameters);
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].sub_(gradients[i] * 1e-6);
  });
  CHECK(calls > 16);
  CHECK(calls <= 80);
}

TEST_CASE("A step of many backwards is watched to its end") {
  constexpr int kBackwards = 32;
  Net net;
  attach_within_little(net);
  torch::optim::SGD optimizer(net->parameters(), 1e-6);
  for (int backward = 0; backward < kBackwards; ++backward) {
    at::Tensor loss = net->loss();
    for (int call = 0; call < kManyCalls / kBackwards; ++call) loss = loss + net->loss();
    loss.backward();
    REQUIRE(!hooks_rest());
  }
  optimizer.step();
}

// A class of the program's own, whose calls are told by an operator.
struct WordsImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& words) { return torch::embedding(weight, words); }
  at::Tensor weight = register_parameter("weight", torch::randn({10, 4}));
};
TORCH_MODULE(Words);

TEST_CASE("A hook that the program registers in a rest sees the next call") {
  constexpr int kCalls = 50;
  int calls = 0;
  Words words;
  HookHandle handle;
  const json summary = summary_of_rests(
      [&](Net&, int step) {
        if (step == 1) handle = register_forward_hook(words, [](const ForwardCall&) {});
        if (step == 2) handle.remove();
        if (step == kSteps - kCalls) {
          if (!called_in(kEmbedding).starts_with("libtorch_cpu.so")) std::abort();
          handle = register_forward_hook(words, [&calls](const ForwardCall&) { ++calls; });
        }
        if (step >= kSteps - kCalls) words->forward(torch::arange(3));
        if (step == kSteps && calls != kCalls + 1) std::abort();
      },
      nothing);
  CHECK(summary["errors"] == 0);
}

TEST_CASE("A write that fails in a rest is told with its tensor") {
  const Work write = [](Net& net, int step) {
    if (step != kSteps) return;
    try {
      net->parameters()[0].mul_(0.5);
    } catch (const c10::Error&) {  // training goes on
    }
  };
  const bool in_forward = GENERATE(true, false);
  CAPTURE(in_forward);
  summary_of_rests(in_forward ? write : nothing, in_forward ? nothing : write);
  const auto findings = records("finding");
  REQUIRE(findings.size() == 3);  // the last one tells of the rests
  CHECK(json::parse(findings[2])["id"] == "tool-check-disabled");
  json finding = json::parse(findings[0]);
  json failure = json::parse(findings[1]);
  if (finding["id"] == "module-operator-failed") std::swap(finding, failure);
  CHECK(failure["op"] == "aten::mul_");
  CHECK(failure["caused_by"] == finding["fingerprint"]);
  CHECK(finding["id"] == "autograd-leaf-inplace");
  CHECK(finding["first_step"] == kSteps);
  CHECK(finding["module_path"] == "first");
  CHECK(finding["subject"] == "weight");
  CHECK(finding["facts"]["writer_site"].get<std::string>().starts_with("rests_test.cpp:"));
}

TEST_CASE("A write in a rest is not put down to an earlier one in the same place of memory") {
  const auto write_saved = [](Net& net, int step) {
    std::vector<at::Tensor> written;
    for (int i = 0; i < 64; ++i) written.push_back(torch::ones({4, 16}).add_(1));
    written.clear();
    if (step < kSteps / 2 || step % 10 != 0) return;
    const at::Tensor h = torch::sigmoid(net->first(torch::randn({4, 8})));
    h.mul_(0.5);
    CHECK_THROWS_AS(h.sum().backward(), c10::Error);
  };
  summary_of_rests(write_saved, nothing);
  int told = 0;
  for (const std::string& line : records("finding")) {
    const json finding = json::parse(line);
    if (finding["id"] != "autograd-inplace-saved") continue;
    ++told;
    INFO(line);
    CHECK(line.find("aten::add_") == std::string::npos);
  }
  CHECK(told > 0);
}

TEST_CASE("A graph that a pass in a rest has freed is told as that") {
  const auto pass_twice = [](Net& net, int step) {
    static at::Tensor kept;
    if (step < kSteps / 2) return;
    if (step % 10 == 0) {
      kept = torch::tanh(net->first(torch::randn({4, 8}))).square().sum();
      kept.backward();
    }
    if (step % 10 == 5 && kept.defined()) CHECK_THROWS_AS(kept.backward(), c10::Error);
  };
  summary_of_rests(pass_twice, nothing);
  int told = 0;
  for (const std::string& line : records("finding")) {
    if (json::parse(line)["id"] != "autograd-double-backward") continue;
    INFO(line);
    CHECK(line.find("is not among the last 8") == std::string::npos);
    told += line.find("the first pass was not recorded") != std::string::npos;
  }
  CHECK(told > 0);
}

}  // namespace ddpscope::test::rests_test
