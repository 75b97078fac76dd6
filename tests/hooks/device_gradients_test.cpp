// The CPU stands for the device: what training does on it, and what is told of it and when.
#include "hooks/device_gradients.h"

#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hooks/capture.h"
#undef CHECK
#include "tests/support/catch.h"
#include "tests/support/fake_device.h"

namespace ddpscope::test {
namespace {
using torch::autograd::AccumulateGrad;

/// Notes what is told: `awaited`, `loss 2.5`, `values 16`, `bad 1`; batches by their number.
class Told final : public EventSink {
 public:
  void put(Event&& event) noexcept override {
    if (const auto* awaited = std::get_if<ValuesAwaitedEvent>(&event)) {
      text_ += "awaited " + std::to_string(awaited->batch) + "; ";
    }
    const auto* held = std::get_if<std::unique_ptr<DeviceValuesEvent>>(&event);
    if (held == nullptr) return;
    const DeviceValuesEvent& values = **held;
    text_ += "batch " + std::to_string(values.batch) + ":";
    for (const auto& loss : values.losses) text_ += std::isnan(loss.value) ? " nan" : " loss";
    for (const auto& gradient : values.gradients) {
      text_ += " full" + std::to_string(gradient.values.elements);
    }
    for (const auto& bad : values.nonfinite) {
      text_ += " bad" + std::to_string(bad.values.elements);
    }
    text_ += "; ";
  }
  std::string take() { return std::exchange(text_, ""); }

 private:
  std::string text_;
};

// One per process in a program, where threads remember what they met: never destroyed.
Capture& new_capture(EventSink& sink, bool values) {
  static auto* const kept = new std::vector<std::unique_ptr<Capture>>;
  const CaptureOptions options{.values = values, .history = 16};
  return *kept->emplace_back(std::make_unique<Capture>(sink, options));
}

/// A training loop with the calls that the hooks make, in their order.
class Training {
 public:
  explicit Training(bool values = true)
      : capture_(new_capture(told_, values)), gradients_(devices_, at::kCPU) {}

  void backward(const at::Tensor& loss, std::vector<at::Tensor> leaves) {
    gradients_.roots(capture_, {loss});
    gradients_.begin(capture_);
    for (const at::Tensor& leaf : leaves) arrive(leaf);
    loss.backward();
    for (const at::Tensor& leaf : leaves) {
      remember_gradient(capture_.tensors().slot(leaf), leaf, 1);
    }
    gradients_.end(capture_, /*threw=*/false);
  }
  void arrive(const at::Tensor& leaf) {
    const auto node = torch::autograd::impl::grad_accumulator(leaf);
    gradients_.arrived(capture_, capture_.tensors().slot(leaf),
                       dynamic_cast<AccumulateGrad&>(*node));
  }

  Told told_;
  FakeDevices devices_;
  Capture& capture_;
  DeviceGradients gradients_;
};

at::Tensor leaf(std::vector<std::int64_t> shape) {
  return torch::ones(shape, torch::requires_grad());
}

TEST_CASE("Loss and gradients of a backward are told in the next one", "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4}), b = leaf({2, 3});
  training.backward(a.sum() + b.sum(), {a, b});
  CHECK(training.told_.take() == "awaited 1; ");
  a.mutable_grad().reset();
  b.mutable_grad().reset();
  training.backward((a * NAN).sum() + b.sum(), {a, b});
  CHECK(training.told_.take() == "batch 1: loss full4 full6; awaited 2; ");
  training.gradients_.tell(training.capture_);
  CHECK(training.told_.take() == "batch 2: nan full4 full6 bad4; ");
  training.gradients_.tell(training.capture_);
  CHECK(training.told_.take().empty());
}

TEST_CASE("What overwrites gradients after the backward is not what is told",
          "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4});
  training.backward((a * NAN).sum(), {a});
  a.mutable_grad().zero_();
  training.told_.take();
  training.gradients_.tell(training.capture_);
  CHECK(training.told_.take() == "batch 1: nan full4 bad4; ");
}

TEST_CASE("No gradient and no loss is kept alive by the watch", "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4});
  training.devices_.is_slow = true;
  const at::Tensor loss = a.sum();
  training.backward(loss, {a});
  CHECK(loss.use_count() == 1);
  CHECK(a.grad().use_count() == 1);
}

TEST_CASE("A gradient that is gone when the backward ends is not read", "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4});
  training.gradients_.begin(training.capture_);
  training.arrive(a);
  a.sum().backward();
  a.mutable_grad().reset();
  training.gradients_.end(training.capture_, false);
  CHECK(training.told_.take().empty());
  training.gradients_.begin(training.capture_);
  {
    const at::Tensor gone = leaf({4});
    training.arrive(gone);
    gone.sum().backward();
  }
  training.gradients_.end(training.capture_, false);
  CHECK(training.told_.take().empty());
  CHECK(training.devices_.launches == 0);
}

TEST_CASE("Leaves whose gradient a hook takes over are left out", "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4}), b = leaf({3});
  const auto node = torch::autograd::impl::grad_accumulator(a);
  node->add_post_hook(nullptr);
  training.gradients_.begin(training.capture_);
  training.arrive(a);
  training.arrive(b);
  b.sum().backward();
  a.mutable_grad() = torch::ones({4});
  training.gradients_.end(training.capture_, false);
  training.gradients_.tell(training.capture_);
  CHECK(training.told_.take() == "awaited 1; batch 1: full3; ");
}

TEST_CASE("Gradients with gaps, without elements, sparse or of whole numbers are not read",
          "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4, 4}), b = leaf({0}), c = leaf({3});
  training.gradients_.begin(training.capture_);
  for (const at::Tensor& one : {a, b, c}) training.arrive(one);
  a.mutable_grad() = torch::ones({4, 8}).slice(1, 0, 8, 2);
  b.mutable_grad() = torch::ones({0});
  c.mutable_grad() = torch::ones({3}).to_sparse();
  training.gradients_.end(training.capture_, false);
  CHECK(training.devices_.launches == 0);
  CHECK(training.told_.take().empty());
}

TEST_CASE("A backward that threw, and level watch, ask nothing", "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4});
  training.gradients_.begin(training.capture_);
  training.arrive(a);
  a.sum().backward();
  training.gradients_.end(training.capture_, /*threw=*/true);
  CHECK(training.devices_.launches == 0);

  Training watch(/*values=*/false);
  watch.backward(a.sum(), {a});
  CHECK(watch.devices_.launches == 0);
}

TEST_CASE("Gradients that add up over two backwards are told as sums", "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4});
  training.backward((a * NAN).sum(), {a});
  training.backward(a.sum(), {a});
  CHECK(training.told_.take() == "awaited 1; batch 1: nan full4 bad4; awaited 2; ");
  training.gradients_.tell(training.capture_);
  CHECK(training.told_.take() == "batch 2: loss; ");
}

TEST_CASE("What several leaves cannot be asked of a slow device is not waited for",
          "[device_gradients]") {
  Training training;
  training.devices_.is_slow = true;
  const at::Tensor a = leaf({4});
  for (int i = 0; i < 4; ++i) {
    a.mutable_grad().reset();
    training.backward(a.sum(), {a});
  }
  CHECK(training.told_.take() == "awaited 1; awaited 2; ");
  training.devices_.finish();
  a.mutable_grad().reset();
  training.backward(a.sum(), {a});
  CHECK(training.told_.take() == "batch 1: loss full4; batch 2: loss full4; awaited 3; ");
}

TEST_CASE("A device that fails is named for the summary, and training goes on",
          "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4});
  training.backward(a.sum(), {a});
  training.devices_.lost = "cudaErrorECCUncorrectable";
  training.backward(a.sum(), {a});
  training.backward(a.sum(), {a});
  CHECK(training.told_.take() == "awaited 1; batch 1:; ");
  REQUIRE(training.capture_.faulted_source() != nullptr);
  CHECK(training.capture_.faulted_source() ==
        std::string("device_value (cuda:-1: cudaErrorECCUncorrectable)"));
}

TEST_CASE("Each of several threads is told its own loss and gradients", "[device_gradients]") {
  Training training;
  const at::Tensor a = leaf({4}), b = leaf({6});
  training.gradients_.roots(training.capture_, {a});  // this thread has not begun its backward
  std::thread([&] { training.backward((b * NAN).sum(), {b}); }).join();
  training.gradients_.tell(training.capture_);
  CHECK(training.told_.take() == "awaited 1; batch 1: nan full6 bad6; ");
}

TEST_CASE("Threads may train at once", "[device_gradients]") {
  Training training;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&training] {
      const at::Tensor a = leaf({4});
      for (int step = 0; step < 50; ++step) {
        a.mutable_grad().reset();
        training.backward(a.sum(), {a});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(training.capture_.faulted_source() == nullptr);
}

}  // namespace
}  // namespace ddpscope::test
