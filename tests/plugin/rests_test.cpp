// Cycles that are not watched: hooks that have nothing to do there are not even called, and what
// no later cycle could tell is told all the same.
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

/// The library in which the engine's calls for what its nodes returned end.
std::string checks_outputs_in() {
  constexpr char kSymbol[] =
      "_ZN5torch8autograd16validate_outputsERKSt6vectorINS0_4EdgeESaIS2_EERS1_IN2at6TensorESaIS8_"
      "EERKSt8functionIFNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSI_EE";
  using SlotOf = void**(const char*);
  auto* const slot_of = reinterpret_cast<SlotOf*>(dlsym(RTLD_DEFAULT, "ddpscope_gate_slot"));
  Dl_info place{};
  if (dladdr(*slot_of(kSymbol), &place) == 0) return "";
  const std::string path = place.dli_fname;
  return path.substr(path.rfind('/') + 1);
}
}  // namespace

TEST_CASE("Where hooks rest, calls go straight to LibTorch") {
  const json summary = summary_of_rests(
      [unhooked = 0](Net&, int step) mutable {
        const std::string library = checks_outputs_in();
        if (step <= kFullCycles && !library.starts_with("libddpscope.so")) std::abort();
        if (library.starts_with("libtorch_cpu.so")) ++unhooked;
        if (step == kSteps && unhooked < kSteps / 2) std::abort();
      },
      nothing);
  CHECK(summary["errors"] == 0);
  CHECK(summary["warnings"] == 0);
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
  REQUIRE(findings.size() == 1);
  const json finding = json::parse(findings[0]);
  CHECK(finding["id"] == "autograd-leaf-inplace");
  CHECK(finding["first_step"] == kSteps);
  CHECK(finding["module_path"] == "first");
  CHECK(finding["subject"] == "weight");
  CHECK(finding["facts"]["writer_site"].get<std::string>().starts_with("rests_test.cpp:"));
}

}  // namespace ddpscope::test::rests_test
