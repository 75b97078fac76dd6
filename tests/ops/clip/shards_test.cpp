// Gradients of which each rank lists a part, and factors that somebody else applies.
#include "tests/ops/clip/oracle.h"
#include "tests/ops/thread_group.h"

namespace ddpscope::test::shards_test {
namespace {

/// What rank r of four lists: nothing at all on the third.
std::vector<Tensors> shards() {
  torch::manual_seed(21);
  return {{torch::randn({70'001}), torch::randn({5}, at::kDouble)},
          {torch::randn({33}).to(at::kHalf)},
          {},
          {torch::randn({2, 3}), torch::empty({0})}};
}

Tensors all_of(const std::vector<Tensors>& parts) {
  Tensors all;
  for (const Tensors& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// The ranks clip together.
std::vector<ClipResult> clip_on_ranks(const std::vector<Tensors>& parts, double max_norm,
                                      ClipOptions options = {}) {
  options.input = ClipInput::kGradients;
  return on_ranks(static_cast<int>(parts.size()), [&](int rank, const CommunicatorPtr& group) {
    ClipOptions own = options;
    own.shards = group;
    return clip_grad_norm_(parts[static_cast<std::size_t>(rank)], max_norm, own);
  });
}

/// The same, of which rank 1 holds a NaN; what each of them threw.
std::vector<std::string> clip_bad(std::vector<Tensors>& parts, const ClipOptions& options) {
  parts[1][0][7] = kNan;
  return try_on_ranks(4, [&](int rank, const CommunicatorPtr& group) {
    ClipOptions own = options;
    own.input = ClipInput::kGradients;
    own.shards = group;
    clip_grad_norm_(parts[static_cast<std::size_t>(rank)], 1, own);
  });
}

}  // namespace

TEST_CASE("Shards are clipped by the norm of all of them, as one list would be") {
  const double p = GENERATE(0., 0.5, 1., 2., 3.5, -1., kInfinity, -kInfinity);
  const double max_norm = GENERATE(1e-2, 1e9, kInfinity);
  CAPTURE(p, max_norm);
  const std::vector<Tensors> parts = shards();
  const Tensors whole = cloned(all_of(parts));
  const auto expected =
      clip_grad_norm_(whole, max_norm, {.input = ClipInput::kGradients, .norm_type = p});
  const auto found = clip_on_ranks(parts, max_norm, {.norm_type = p});
  for (const ClipResult& one : found) {
    CHECK(one.total_norm_value() == Approx(expected.total_norm_value()).epsilon(1e-13));
    CHECK(same_bits(one.total_norm, found[0].total_norm));
    CHECK(same_bits(one.coefficient, found[0].coefficient));
    CHECK(one.found_inf.item<float>() == 0);
    CHECK(one.first_bad.item<std::int64_t>() == -1);
  }
  const Tensors clipped = all_of(parts);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(torch::allclose(clipped[i].to(at::kDouble), whole[i].to(at::kDouble), 1e-6, 0));
  }
  CHECK(found[1].tensor_norms.sizes() == at::IntArrayRef{1});
}

TEST_CASE("A group without any gradient has the norm 0") {
  const double p = GENERATE(0., 2., -1., kInfinity, -kInfinity);
  for (const ClipResult& one : clip_on_ranks({{}, {torch::empty({0})}}, 1, {.norm_type = p})) {
    CHECK(one.total_norm_value() == 0);
  }
}

TEST_CASE("A NaN of one rank decides on all of them") {
  std::vector<Tensors> parts = shards();
  const Tensors before = cloned(all_of(parts));
  SECTION("they throw, and no gradient is changed") {
    const auto thrown = clip_bad(parts, {.on_non_finite = NonFinite::kThrow});
    CHECK(says(thrown[1], "that of tensors[0], with 1 NaN and 0 Inf. No gradient was changed"));
    for (const int other : {0, 2, 3}) {
      CHECK(says(thrown[other],
                 "the total norm is nan; every element of this rank is finite, and "
                 "another rank has a NaN or an Inf. No gradient was changed"));
    }
  }
  SECTION("they skip") {
    for (const auto& thrown : clip_bad(parts, {.on_non_finite = NonFinite::kSkip})) {
      CHECK(thrown.empty());
    }
  }
  SECTION("they unscale alone") {
    const auto scale = torch::full({}, 0.5F);
    clip_bad(parts, {.inverse_scale = scale});
    for (const at::Tensor& gradient : before) gradient.mul_(0.5);
  }
  const Tensors after = all_of(parts);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i != 2) CHECK(same_bits(after[i], before[i]));
  }
}

TEST_CASE("A rank tells that only others hold a NaN") {
  std::vector<Tensors> parts = shards();
  parts[1][0][7] = kNan;
  const auto found = clip_on_ranks(parts, 1, {.on_non_finite = NonFinite::kSkip});
  CHECK(found[1].first_bad.item<std::int64_t>() == 0);
  CHECK(found[0].first_bad.item<std::int64_t>() == -2);
  CHECK(found[0].found_inf.item<float>() == 1);
  CHECK(
      says(thrown_by([&] { found[0].throw_if_non_finite(); }), "another rank has a NaN or an Inf"));
}

TEST_CASE("The bad shards become 0, and the norm is that of the others") {
  std::vector<Tensors> parts = shards();
  parts[1][0][7] = kNan;
  const double norm = exact_norm({parts[0][0], parts[0][1], parts[3][0]}, 2);
  const auto found = clip_on_ranks(parts, 1, {.on_non_finite = NonFinite::kZeroTensor});
  for (const ClipResult& one : found) CHECK(one.total_norm_value() == Approx(norm).epsilon(1e-13));
  CHECK(parts[1][0].count_nonzero().item<std::int64_t>() == 0);
}

TEST_CASE("A scaler steps on all ranks of a group or on none") {
  std::vector<Tensors> parts = shards();
  parts[1][0][7] = kInfinity;
  const auto stepped = on_ranks(4, [&](int rank, const CommunicatorPtr& group) {
    const Tensors parameters = with_gradients(parts[static_cast<std::size_t>(rank)]);
    torch::optim::SGD optimizer(parameters, 0.1);
    GradScaler scaler;
    scaler.unscale_and_clip_(parameters, 1, {.shards = group});
    return int(scaler.step(optimizer));
  });
  CHECK(stepped == std::vector<int>(4, 0));
}

TEST_CASE("A deferred factor leaves gradients as they are, and is told") {
  const Tensors gradients = {torch::full({4}, 3.F), torch::full({9}, 2.F)};
  const Tensors before = cloned(gradients);
  const auto result = clip_grad_norm_(
      gradients, 1,
      {.input = ClipInput::kGradients, .inverse_scale = torch::full({}, 0.5F), .defer = true});
  CHECK(same_bits(gradients, before));
  clip_grad_norm_(before, 1,
                  {.input = ClipInput::kGradients, .inverse_scale = torch::full({}, 0.5F)});
  const auto scale = result.grad_scale.item<float>();
  CHECK(scale == Approx(1 / (result.coefficient.item<double>() * 0.5)).epsilon(1e-6));
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(torch::allclose(gradients[i] / scale, before[i], 1e-6, 0));
  }
}

TEST_CASE("Shards keep the range that one list has") {
  const std::vector<Tensors> parts(2, {torch::full({2}, 1e-6, at::kDouble)});
  for (const double p : {64., -64.}) {
    const auto expected =
        clip_grad_norm_(all_of(parts), kInfinity, {.input = ClipInput::kGradients, .norm_type = p});
    for (const ClipResult& one : clip_on_ranks(parts, kInfinity, {.norm_type = p})) {
      CHECK(one.total_norm_value() == Approx(expected.total_norm_value()).epsilon(1e-13));
    }
  }
}

TEST_CASE("Ranks that call with other arguments are told so, each of them") {
  const Tensors gradients = {torch::full({4}, 3.F)};
  const auto change = GENERATE(0, 1, 2, 3, 4, 5);
  const auto thrown = try_on_ranks(2, [&](int rank, const CommunicatorPtr& group) {
    const Tensors own = cloned(gradients);
    ClipOptions options{.input = ClipInput::kGradients, .shards = group};
    if (rank == 1 && change == 1) options.norm_type = 1;
    if (rank == 1 && change == 2) options.eps = 1;
    if (rank == 1 && change == 3) options.on_non_finite = NonFinite::kSkip;
    if (rank == 1 && change == 4) options.defer = true;
    if (change == 5) options.inverse_scale = torch::full({}, rank == 1 ? 0.5F : 0.25F);
    try {
      clip_grad_norm_(own, rank == 1 && change == 0 ? 2 : 1, options);
    } catch (const c10::Error&) {
      CHECK(same_bits(own, gradients));
      throw;
    }
  });
  for (const std::string& what : thrown) {
    CHECK(says(what, "rank 1 of the group called with another max_norm, or with other options"));
  }
}

TEST_CASE("A rank that threw before an exchange is a call ahead in the next one") {
  const auto thrown = try_on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    const ClipOptions options{.input = ClipInput::kGradients, .shards = group};
    const Tensors gradients = {torch::full({4}, 3.F)};
    if (rank == 0) {
      const Tensors wrong = {torch::ones({4}, at::kLong)};
      CHECK(says(thrown_by([&] { clip_grad_norm_(wrong, 1, options); }), "is Long"));
    }
    clip_grad_norm_(gradients, 1, options);
  });
  for (const std::string& what : thrown) {
    CHECK(says(what, "rank 1 of the group is at call 1 over its shards and rank 0 at call 2"));
  }
}

TEST_CASE("A call that a scaler refuses on one rank is counted there") {
  const auto thrown = try_on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    const Tensors parameters = with_gradients({torch::full({4}, 3.F)});
    GradScaler scaler;
    ClipOptions options{.on_non_finite = NonFinite::kThrow, .shards = group};
    if (rank == 0) {
      CHECK_FALSE(thrown_by([&] { scaler.unscale_and_clip_(parameters, 1, options); }).empty());
    }
    options.on_non_finite = NonFinite::kPropagate;
    scaler.unscale_and_clip_(parameters, 1, options);
  });
  for (const std::string& what : thrown) {
    CHECK(says(what, "rank 1 of the group is at call 1 over its shards and rank 0 at call 2"));
  }
}

TEST_CASE("What an exchange throws names the clip, and gradients stay as they are") {
  const Tensors gradients = {torch::full({4}, 3.F)};
  const Tensors before = cloned(gradients);
  const auto group = make_host_communicator(
      0, 2, [](double*, std::size_t) { throw std::runtime_error("the network is gone"); });
  const auto what = thrown_by(
      [&] { clip_grad_norm_(gradients, 1, {.input = ClipInput::kGradients, .shards = group}); });
  CHECK(says(what, "the network is gone"));
  CHECK(says(what, "clip_grad_norm_ could not add up the norms of its shards"));
  CHECK(same_bits(gradients, before));
}

TEST_CASE("A scaler refuses to step with gradients that it left as they are") {
  const Tensors parameters = with_gradients({torch::full({4}, 3.F)});
  torch::optim::SGD optimizer(parameters, 0.1);
  GradScaler scaler;
  scaler.unscale_and_clip_(parameters, 1, {.defer = true});
  CHECK(says(thrown_by([&] { scaler.step(optimizer); }), "gradients still carry the scale"));
  scaler.update();
  scaler.unscale_and_clip_(parameters, 1);
  CHECK(scaler.step(optimizer));
}

}  // namespace ddpscope::test::shards_test
