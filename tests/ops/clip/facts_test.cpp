// What an observer is told of clips.
#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::facts_test {
namespace {

/// Observes while it lives.
struct Observed : OpObserver {
  std::vector<ClipFacts> clips;
  std::vector<std::vector<const void*>> gradients;

  void clipped(const ClipFacts& clip) noexcept override {
    clips.push_back(clip);
    clips.back().gradients = {};  // lives for the call alone
    gradients.emplace_back(clip.gradients.begin(), clip.gradients.end());
  }
  OpObserver* const before = set_op_observer(this);
  ~Observed() override { set_op_observer(before); }
};

}  // namespace

TEST_CASE("an observer is told limit and norm and factor and where the gradients lie") {
  const Tensors gradients = {torch::full({4}, 3.F), torch::full({5}, 8.F),
                             torch::ones({3, 2}).t().slice(0, 0, 1), torch::ones({4}).to_sparse(),
                             torch::empty({0})};
  Tensors listed = with_gradients(gradients);
  listed.emplace_back();
  Observed log;
  const auto result = clip_grad_norm_(listed, 2, {.inverse_scale = torch::full({}, 0.5F)});
  REQUIRE(log.clips.size() == 1);
  const ClipFacts& facts = log.clips[0];
  CHECK(facts.max_norm == 2);
  CHECK(facts.total_norm == result.total_norm_value());
  CHECK(facts.inverse_scale == 0.5);
  CHECK(facts.coefficient == result.coefficient.item<double>());
  CHECK(facts.is_limited);
  CHECK(!facts.is_refused);
  CHECK(facts.tensors == 6);
  CHECK(facts.first_bad == -1);
  const std::vector<const void*> places = {gradients[0].const_data_ptr(),
                                           gradients[1].const_data_ptr(),
                                           gradients[2].const_data_ptr(),
                                           nullptr,
                                           nullptr,
                                           nullptr};
  CHECK(log.gradients[0] == places);
}

TEST_CASE("an observer is told that a factor is deferred") {
  const bool is_deferred = GENERATE(true, false);
  Observed log;
  clip_grad_norm_(with_gradient(torch::full({4}, 3.F)), 2, {.defer = is_deferred});
  REQUIRE(log.clips.size() == 1);
  CHECK(log.clips[0].is_deferred == is_deferred);
  CHECK(log.clips[0].coefficient < 1);
}

TEST_CASE("an observer is told what became of a norm that is not finite") {
  const auto facts_of = [](NonFinite mode, double max_norm) {
    Observed log;
    const auto bad = torch::tensor({1., kNan, kInfinity}, at::kFloat);
    thrown_by([&] { clip_grad_norm_(with_gradients({bad}), max_norm, {.on_non_finite = mode}); });
    REQUIRE(log.clips.size() == 1);
    CHECK(log.clips[0].first_bad == 0);
    CHECK(log.clips[0].nan_count == 1);
    CHECK(log.clips[0].inf_count == 1);
    return log.clips[0];
  };
  const ClipFacts spread = facts_of(NonFinite::kPropagate, 1);
  CHECK(spread.is_limited);
  CHECK(std::isnan(spread.coefficient));
  const ClipFacts spared = facts_of(NonFinite::kSkip, 1);
  CHECK(!spared.is_limited);
  CHECK(spared.coefficient == 1);
  CHECK(!spared.is_refused);
  CHECK(facts_of(NonFinite::kThrow, 1).is_refused);
  CHECK(!facts_of(NonFinite::kPropagate, kInfinity).is_limited);
}

TEST_CASE("an observer is told over how many ranks a norm is") {
  Observed log;
  const auto group = make_communicator(0, 2, [](at::Tensor& sum) {  // the other holds the same
    const at::Tensor rows = sum.view({2, -1});
    rows[1].copy_(rows[0]);
  });
  clip_grad_norm_(with_gradient(torch::full({4}, 3.F)), 2, {.shards = group});
  clip_grad_norm_(with_gradient(torch::full({4}, 3.F)), 2, {});
  REQUIRE(log.clips.size() == 2);
  CHECK(log.clips[0].ranks == 2);
  CHECK(log.clips[0].total_norm == Approx(std::sqrt(72)));
  CHECK(log.clips[1].ranks == 1);
}

TEST_CASE("an observer is told of a clip in torch's form") {
  Observed log;
  const Tensors listed = with_gradients({torch::full({4}, 3.F)});
  CHECK(compat::clip_grad_norm_(listed, 1.5) == 6);
  CHECK_THROWS(compat::clip_grad_norm_(with_gradients({torch::full({2}, kNan)}), 1, 2, true));
  compat::clip_grad_norm_(listed, -1);
  REQUIRE(log.clips.size() == 3);
  CHECK(log.clips[0].total_norm == 6);
  CHECK(log.clips[0].coefficient == Approx(0.25));
  CHECK(log.clips[0].is_limited);
  CHECK(log.clips[1].is_refused);
  CHECK(log.clips[2].max_norm == -1);
  CHECK(log.clips[2].coefficient < 0);
}

TEST_CASE("with an observer a clip has the bits that it has without") {
  torch::manual_seed(71);
  const Tensors without = {torch::randn({40'001}), torch::randn({7}).to(at::kBFloat16)};
  const Tensors with = cloned(without);
  clip_grad_norm_(with_gradients(without), 0.3);
  const Observed log;
  clip_grad_norm_(with_gradients(with), 0.3);
  CHECK(same_bits(with, without));
}

}  // namespace ddpscope::test::facts_test
