// What checks say of values that a device told a step late.
#include <algorithm>
#include <cmath>

#include "plugin/worker.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::late_findings_test {
namespace {
using std::chrono::seconds;
constexpr TensorId kWeight = 7;

/// A training loop on a device, as its hooks tell it.
class DeviceLoop {
 public:
  DeviceLoop() : worker_(options()) {
    worker_.start();
    put(std::make_unique<TensorEvent>(TensorEvent{.tensor = {.id = kWeight,
                                                             .shape = {4},
                                                             .dtype = "float32",
                                                             .device = "cuda:0",
                                                             .elements = 4,
                                                             .requires_grad = true,
                                                             .is_leaf = true,
                                                             .floating = true}}));
    OptimizerMembersEvent members{.optimizer = 1, .type = "SGD"};
    members.groups = {{{.tensor = kWeight, .requires_grad = true}}};
    put(std::make_unique<OptimizerMembersEvent>(std::move(members)));
  }
  ~DeviceLoop() {
    if (!is_finished_) finish();
  }

  Stamp now() const { return {.step = step_, .cycle = step_, .thread = 1}; }
  void put(Event event) { worker_.put(std::move(event)); }

  /// The device is asked when the backward ends; it has told nothing yet.
  void backward() {
    put(std::make_unique<BackwardEvent>(BackwardEvent{.at = now()}));
    tell();
    put(GradientEvent{.at = now(), .tensor = kWeight, .defined = true, .depth = 1});
    put(ValuesAwaitedEvent{.at = now(), .batch = ++asked_});
    put(BackwardEndEvent{.at = now()});
    asked_at_ = now();
  }
  void step() {
    put(OptimizerStepEvent{.at = now(), .optimizer = 1});
    put(CycleEndEvent{.at = now()});
    ++step_;
  }
  void zero_grad() { put(ZeroGradEvent{.at = now(), .optimizer = 1}); }
  /// What the device will tell of the backward before: a NaN.
  void spoil(double loss) {
    late_ = std::make_unique<DeviceValuesEvent>();
    late_->losses.push_back({.at = asked_at_, .value = loss});
    late_->nonfinite.push_back(
        {.at = asked_at_, .tensor = kWeight, .values = {.elements = 4, .nan_count = 1}});
  }

  Findings findings() {
    CHECK(worker_.drain(seconds(60)));
    return worker_.findings();
  }
  Findings finish() {
    is_finished_ = true;
    worker_.finish(seconds(60), {});
    return worker_.findings();
  }

 private:
  WorkerOptions options() {
    WorkerOptions options;
    options.settings.report_dir = dir_ / "out";
    options.settings.console = Console::kQuiet;
    options.judge.checks = "numeric-nonfinite-*";
    options.judge.sources = {"tree", "graph", "gradient", "optimizer", "saved", "value"};
    return options;
  }
  void tell() {
    if (asked_ == 0) return;
    if (late_ == nullptr) late_ = std::make_unique<DeviceValuesEvent>();
    late_->batch = asked_;
    put(std::exchange(late_, nullptr));
  }

  TemporaryDir dir_;
  Worker worker_;
  bool is_finished_ = false;
  std::int64_t step_ = 1;
  std::uint64_t asked_ = 0;
  Stamp asked_at_;
  std::unique_ptr<DeviceValuesEvent> late_;
};

const Finding* find(const Findings& findings, std::string_view id) {
  const auto found = std::ranges::find(findings, id, &Finding::id);
  return found == findings.end() ? nullptr : &*found;
}

TEST_CASE("A gradient that is not finite on a device is found one step later, as of its step",
          "[late_values]") {
  DeviceLoop loop;
  for (int i = 0; i < 3; ++i) {
    loop.backward();
    loop.step();
    loop.zero_grad();
  }
  loop.backward();
  loop.spoil(NAN);
  loop.step();
  loop.zero_grad();
  CHECK(loop.findings().empty());
  loop.backward();
  const Findings findings = loop.findings();
  const Finding* const found = find(findings, "numeric-nonfinite-gradient");
  REQUIRE(found != nullptr);
  CHECK(found->step == 4);
  CHECK(found->severity == Severity::kError);
  CHECK(find(findings, "numeric-nonfinite-backward") == nullptr);  // the loss was not finite
}

TEST_CASE("Where the loss on the device was finite the leaf is named", "[late_values]") {
  DeviceLoop loop;
  loop.backward();
  loop.spoil(0.5);
  loop.step();
  loop.backward();
  loop.step();
  const Findings findings = loop.finish();
  const Finding* const found = find(findings, "numeric-nonfinite-backward");
  REQUIRE(found != nullptr);
  CHECK(found->step == 1);
}

TEST_CASE("Where the program looked at the gradient and left the step out nothing is said",
          "[late_values]") {
  DeviceLoop loop;
  loop.backward();
  loop.step();
  loop.zero_grad();
  loop.backward();
  loop.spoil(NAN);
  loop.zero_grad();
  for (int i = 0; i < 3; ++i) {
    loop.backward();
    loop.step();
    loop.zero_grad();
  }
  CHECK(loop.finish().empty());
}

}  // namespace
}  // namespace ddpscope::test::late_findings_test
