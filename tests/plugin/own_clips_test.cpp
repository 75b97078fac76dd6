// Gradients that programs clip, unscale and measure by the functions of ddpscope/ops.h.
#include <ddpscope/ops.h>

#include <cmath>
#include <limits>

#include "tests/support/torch_test.h"

namespace ddpscope::test::own_clips_test {
namespace {
using torch::optim::SGD;
constexpr double kLimit = 0.001;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Steps of which `between` runs after backward, and says whether to step.
void run(Net& net, const std::function<bool()>& between, int steps = 6) {
  SGD optimizer(net->parameters(), 1e-3);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    net->loss().backward();
    if (between()) optimizer.step();
  }
}

void spoil(Net& net, float value) { net->second->bias.grad()[0].fill_(value); }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

/// In every step, however short they are.
Options watched() {
  Options options = quiet();
  options.overhead = 100;
  return options;
}

/// As many steps as clip-always-active wants to see.
void run_clipped(Net& net, double limit) {
  run(
      net,
      [&] {
        clip_grad_norm_(net->parameters(), limit);
        return true;
      },
      /*steps=*/420);
}

/// Steps with a loss that a scaler multiplies; `between` unscales.
void run_scaled(Net& net, const std::function<void(GradScaler&)>& between) {
  SGD optimizer(net->parameters(), 1e-3);
  GradScaler scaler({.init_scale = 4096});
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    scaler.scale(net->loss()).backward();
    between(scaler);
    scaler.step(optimizer);
    scaler.update();
  }
}
}  // namespace

TEST_CASE("A clip of ours with a norm that is NaN is found once the optimizer steps") {
  Net net;
  attach_diagnostics(net, quiet());
  run(
      net,
      [&] {
        spoil(net, kNan);
        clip_grad_norm_(net->parameters(), kLimit);
        return true;
      },
      /*steps=*/1);
  const auto found = findings();
  const Finding* finding = find(found, "clip-nonfinite-norm");
  REQUIRE(finding != nullptr);
  CHECK(finding->what == "total gradient norm is NaN; clipping set all 4 gradients to NaN");
  CHECK(text_fact(*finding, "cause") == "written_after_backward");
}

TEST_CASE("A clip of ours in torch's form with a norm that is Inf is found") {
  Net net;
  attach_diagnostics(net, quiet());
  run(
      net,
      [&] {
        spoil(net, kInfinite);
        compat::clip_grad_norm_(net->parameters(), kLimit);
        return true;
      },
      /*steps=*/1);
  const auto found = findings();
  const Finding* finding = find(found, "clip-nonfinite-norm");
  REQUIRE(finding != nullptr);
  CHECK(finding->what ==
        "total gradient norm is Inf; clipping set what was finite in 4 gradients to 0 and left NaN "
        "where Inf was");
}

TEST_CASE("A norm that a clip of ours spares is no finding where the step is left out") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    spoil(net, kNan);
    const ClipOptions options = {.on_non_finite = NonFinite::kSkip};
    return clip_grad_norm_(net->parameters(), kLimit, options).found_inf.item<float>() == 0;
  });
  check_silent(1, 0);
}

TEST_CASE("A norm that a clip of ours refuses is no finding where the step is left out") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    spoil(net, kInfinite);
    CHECK_THROWS(clip_grad_norm_(net->parameters(), kLimit, {.on_non_finite = NonFinite::kThrow}));
    CHECK_THROWS(compat::clip_grad_norm_(net->parameters(), kLimit, 2, true));
    return false;
  });
  check_silent(1, 0);
}

TEST_CASE("Gradients that a clip of ours sets to zero are no finding") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    spoil(net, kNan);
    clip_grad_norm_(net->parameters(), kLimit, {.on_non_finite = NonFinite::kZeroTensor});
    return true;
  });
  check_silent();
}

TEST_CASE("A limit of ours that acts in every step is found") {
  Net net;
  attach_diagnostics(net, watched());
  run_clipped(net, kLimit);
  check_findings({"clip-always-active warning - - always_active -"});
}

TEST_CASE("A limit of ours that is seldom reached is no finding") {
  Net net;
  attach_diagnostics(net, watched());
  run_clipped(net, /*limit=*/10);
  check_silent();
}

TEST_CASE("A clip of ours that only measures is no finding") {
  Net net;
  attach_diagnostics(net, watched());
  run_clipped(net, std::numeric_limits<double>::infinity());
  check_silent();
}

TEST_CASE("A clip of ours before a scaler of ours unscales is found") {
  Net net;
  attach_diagnostics(net, quiet());
  run_scaled(net, [&](GradScaler& scaler) {
    clip_grad_norm_(net->parameters(), kLimit);
    scaler.unscale_and_clip_(net->parameters(), kNoLimit);
  });
  check_findings({"clip-before-unscale error - - - -"});
}

TEST_CASE("A clip of LibTorch's before a scaler of ours unscales is found") {
  Net net;
  attach_diagnostics(net, quiet());
  run_scaled(net, [&](GradScaler& scaler) {
    torch::nn::utils::clip_grad_norm_(net->parameters(), kLimit);
    scaler.unscale_and_clip_(net->parameters(), kNoLimit);
  });
  check_findings({"clip-before-unscale error - - - -"});
}

TEST_CASE("A clip while a scaler of ours unscales is no finding") {
  Net net;
  attach_diagnostics(net, quiet());
  run_scaled(net, [&](GradScaler& scaler) { scaler.unscale_and_clip_(net->parameters(), kLimit); });
  check_silent();
}

TEST_CASE("A clip after a scaler of ours unscaled is no finding") {
  Net net;
  attach_diagnostics(net, quiet());
  run_scaled(net, [&](GradScaler& scaler) {
    scaler.unscale_and_clip_(net->parameters(), kNoLimit);
    torch::nn::utils::clip_grad_norm_(net->parameters(), kLimit);
  });
  check_silent();
}

}  // namespace ddpscope::test::own_clips_test
