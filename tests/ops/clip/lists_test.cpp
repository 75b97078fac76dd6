// What may stand in a list: sizes, dtypes, layouts, strides, what is absent and what is doubled.
#include <cstdlib>
#include <fstream>

#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::lists_test {
namespace {

/// Clips to half of the norm and compares with the oracle.
void check_halved(const Tensors& gradients, double limit = 1e-6) {
  const Tensors before = cloned(gradients);
  const double norm = exact_norm(before, 2);
  const auto result = clip_grad_norm_(with_gradients(gradients), norm / 2);
  CHECK(result.total_norm_value() == Approx(norm).epsilon(1e-7));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (before[i].numel() == 0) continue;
    const auto wide = before[i].is_complex() ? at::kComplexDouble : at::kDouble;
    const auto expected = before[i].to_dense().to(wide) * (norm / 2 / (norm + 1e-6));
    const auto difference = (gradients[i].to_dense().to(wide) - expected).abs().max();
    CAPTURE(i, before[i].numel());
    CHECK(difference.item<double>() <= limit * expected.abs().max().item<double>());
  }
}

}  // namespace

TEST_CASE("Sizes around those of chunks and lanes count in every place of the list") {
  torch::manual_seed(1);
  Tensors gradients;
  for (const std::int64_t size : {0, 1, 3, 15, 16, 17, 16383, 16384, 16385, 65535, 65536, 65537}) {
    gradients.push_back(torch::randn({size}));
  }
  for (std::size_t turn = 0; turn < gradients.size(); ++turn) {
    std::rotate(gradients.begin(), gradients.begin() + 1, gradients.end());
    check_halved(gradients);
  }
}

TEST_CASE("Long lists are clipped as short ones") {
  torch::manual_seed(2);
  for (const int count : {1344, 1345, 3000, 10'000}) {
    Tensors gradients;
    for (int i = 0; i < count; ++i) gradients.push_back(torch::randn({i % 7}));
    const Tensors before = cloned(gradients);
    const double norm = exact_norm(before, 2);
    const auto result = clip_grad_norm_(with_gradients(gradients), norm / 2);
    CHECK(result.total_norm_value() == Approx(norm).epsilon(1e-7));
    const auto flat = torch::cat(gradients), expected = torch::cat(before) * 0.5F;
    CHECK((flat - expected).abs().max().item<double>() < 1e-5);
  }
}

TEST_CASE("Chunks beyond 2^26 elements are larger and give the same norm") {
  const std::int64_t size = (std::int64_t{1} << 26) + 17;
  const auto gradient = torch::full({size}, 0.5, at::kBFloat16);
  const auto result = clip_grad_norm_(with_gradient(gradient), 1);
  const double norm = 0.5 * std::sqrt(static_cast<double>(size));
  CHECK(result.total_norm_value() == Approx(norm).epsilon(1e-12));
  const auto expected =
      torch::tensor(0.5F * static_cast<float>(1 / (norm + 1e-6))).to(at::kBFloat16);
  CHECK((gradient == expected).all().item<bool>());
}

TEST_CASE("More than 2^31 elements of one gradient are all read and written") {
  std::ifstream memory("/proc/meminfo");
  std::string word;
  std::int64_t available_kb = 0;
  while (memory >> word) {
    if (word == "MemAvailable:") memory >> available_kb;
  }
  if (std::getenv("DDPSCOPE_TEST_LARGE") == nullptr || available_kb < 6 << 20) {
    DDPSCOPE_SKIP("needs DDPSCOPE_TEST_LARGE=1 and 6 GiB of memory that is available");
  }
  const std::int64_t size = (std::int64_t{1} << 31) + 5;
  const auto gradient = torch::zeros({size}, at::kBFloat16);
  gradient[0] = 3;
  gradient[size - 1] = 4;
  const auto result = clip_grad_norm_(with_gradient(gradient), 2.5, {.eps = 0});
  CHECK(result.total_norm_value() == 5);
  CHECK(gradient[0].item<float>() == 1.5);
  CHECK(gradient[size - 1].item<float>() == 2);
  clip_grad_value_(with_gradient(gradient), 1.25);
  CHECK(gradient[0].item<float>() == 1.25);
  CHECK(gradient[size - 1].item<float>() == 1.25);
}

TEST_CASE("Views of buckets, offsets and channels-last weights are flat runs") {
  torch::manual_seed(4);
  const auto bucket = torch::randn({1 + 100 + 24});
  const auto untouched = bucket[0].item<float>();
  const auto odd = bucket.narrow(0, 1, 100), rest = bucket.narrow(0, 101, 24).view({2, 3, 4});
  const auto weight = torch::randn({8, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  check_halved({odd, rest, weight});
  CHECK(bucket[0].item<float>() == untouched);
  CHECK(weight.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_CASE("Strided gradients are written where they lie, and nothing between them") {
  torch::manual_seed(5);
  const auto base = torch::randn({10, 8});
  const auto gaps = base.narrow(1, 3, 5).clone();
  const auto columns = base.slice(1, 0, 3), every_third = torch::randn({60}).slice(0, 0, 60, 3);
  check_halved({columns, every_third});
  CHECK(same_bits(base.narrow(1, 3, 5), gaps));
}

TEST_CASE("Overlapping elements are refused with every gradient unchanged") {
  const auto fine = torch::full({4}, 3.), before = fine.clone();
  const auto refused = [&](const at::Tensor& gradient) {
    return thrown_by([&] {
      clip_grad_norm_({fine, gradient}, 1, {.input = ClipInput::kGradients});
    });
  };
  CHECK(says(refused(torch::ones({1}).expand({3})), "tensors[1], of shape [3] and strides [0]"));
  CHECK(says(refused(torch::ones({4}).as_strided({3, 2}, {1, 1})), "overlap in memory"));
  CHECK(says(refused(torch::ones({9}).as_strided({3, 3}, {2, 2})), "overlap in memory"));
  CHECK(same_bits(fine, before));
  // Interleaved, but each element in a place of its own.
  const auto woven = torch::ones({8}).as_strided({2, 3}, {3, 2});
  CHECK(clip_grad_norm_(woven, kInfinity, {.input = ClipInput::kGradients}).total_norm_value() ==
        Approx(std::sqrt(6)));
}

TEST_CASE("Dtypes may be mixed in one list") {
  torch::manual_seed(6);
  check_halved(
      {torch::randn({50}), torch::randn({33}).to(at::kBFloat16), torch::randn({70}).to(at::kHalf),
       torch::randn({20}, at::kDouble), torch::randn({9}, at::kComplexFloat)},
      4e-3);
}

TEST_CASE("Other dtypes, layouts and devices are refused by name") {
  const auto refused = [&](const at::Tensor& gradient) {
    return thrown_by([&] {
      clip_grad_norm_({torch::ones({1}), gradient}, 1, {.input = ClipInput::kGradients});
    });
  };
  CHECK(says(refused(torch::ones({2}, at::kLong)), "tensors[1] is Long"));
  CHECK(says(refused(torch::ones({2}, at::kBool)), "tensors[1] is Bool"));
  CHECK(says(refused(torch::ones({2, 2}).to_sparse_csr()), "has the layout SparseCsr"));
  CHECK(says(refused(torch::ones({2}, at::kMeta)), "tensors[1] is on meta"));
}

TEST_CASE("Undefined and empty gradients are skipped at every order") {
  for (const double p : {0., 1., 2., kInfinity, -kInfinity, -2., 0.5}) {
    const auto gradient = torch::full({1}, 3.F);
    const Tensors parameters = {at::Tensor(), with_gradient(torch::empty({0, 3})), torch::ones({2}),
                                with_gradient(gradient), with_gradient(torch::empty({0}))};
    const auto result = clip_grad_norm_(parameters, kInfinity, {.norm_type = p});
    CHECK(result.total_norm_value() == Approx(p == 0 ? 1 : 3));
    CHECK(result.tensor_norms.sizes() == at::IntArrayRef{5});
    CHECK(result.tensor_norms.sum().item<double>() == Approx(p == 0 ? 1 : 3));
    CHECK(result.found_inf.item<float>() == 0);
  }
  const auto nothing = clip_grad_norm_(Tensors(), 1);
  CHECK(nothing.total_norm_value() == 0);
  CHECK(nothing.tensor_norms.numel() == 0);
  CHECK(nothing.first_bad.item<std::int64_t>() == -1);
}

TEST_CASE("A gradient that is listed twice counts twice and is scaled twice") {
  for (const int threads : {1, 2}) {
    torch::set_num_threads(threads);
    for (const std::int64_t size : {6, 300'000}) {
      const auto gradient = torch::ones({size});
      const auto parameter = with_gradient(gradient);
      const double norm = std::sqrt(2. * static_cast<double>(size));
      const auto result = clip_grad_norm_({parameter, parameter}, norm / 2, {.eps = 0});
      CHECK(result.total_norm_value() == Approx(norm).epsilon(1e-12));
      CHECK((gradient == 0.25F).all().item<bool>());
      const auto matrix = torch::ones({size, 2});
      const auto column = with_gradient(matrix.select(1, 0));
      clip_grad_norm_({column, column}, norm / 2, {.eps = 0});
      CHECK((matrix.select(1, 0) == 0.25F).all().item<bool>());
      CHECK((matrix.select(1, 1) == 1).all().item<bool>());
    }
  }
  torch::set_num_threads(1);
}

TEST_CASE("Sparse gradients count their summed values") {
  const auto indices = torch::tensor({{0, 2, 0}});
  const auto values = torch::tensor({{1.F, 2.F}, {3.F, 4.F}, {5.F, 6.F}});
  SECTION("coalesced, in place") {
    const auto gradient = torch::sparse_coo_tensor(indices, values, {4, 2}).coalesce();
    const void* const place = gradient._values().const_data_ptr();
    check_halved({gradient, torch::ones({3})});
    CHECK(gradient._values().const_data_ptr() == place);
  }
  SECTION("not coalesced") {
    const auto gradient = torch::sparse_coo_tensor(indices, values.clone(), {4, 2});
    const auto result = clip_grad_norm_(with_gradient(gradient), kInfinity);
    CHECK(result.total_norm_value() == Approx(std::sqrt(36 + 64 + 9 + 16)));
    check_halved({gradient});
    const auto twice = torch::sparse_coo_tensor(indices, torch::ones({3}), {4});
    clip_grad_norm_({twice, twice}, std::sqrt(10.) / 2, {ClipInput::kGradients, 2, 0});
    CHECK(twice.to_dense()[0].item<float>() == Approx(0.5));
  }
  SECTION("of an embedding whose rows share one value") {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 3).sparse(true));
    table(torch::tensor({1, 1, 4})).sum().backward();
    const auto result = clip_grad_norm_(table->parameters(), 1, {.eps = 0});
    CHECK(result.total_norm_value() == Approx(std::sqrt(15)));
    const auto dense = table->weight.grad().to_dense();
    CHECK(dense[1][0].item<double>() == Approx(2 / std::sqrt(15)));
    CHECK(dense[4][2].item<double>() == Approx(1 / std::sqrt(15)));
  }
  SECTION("whose values are one in memory") {
    const auto gradient = torch::sparse_coo_tensor(indices, torch::ones({1}).expand({3}), {4});
    clip_grad_norm_(with_gradient(gradient), 1, {.eps = 0});
    CHECK(gradient.to_dense()[0].item<double>() == Approx(2 / std::sqrt(5)));
    CHECK(gradient.to_dense()[2].item<double>() == Approx(1 / std::sqrt(5)));
  }
  SECTION("not coalesced, through another tensor of the same values") {
    const auto gradient = torch::sparse_coo_tensor(indices, torch::ones({3}), {4});
    clip_grad_norm_(gradient.detach(), 1, {.input = ClipInput::kGradients, .eps = 0});
    CHECK(gradient.to_dense()[0].item<double>() == Approx(2 / std::sqrt(5)));
  }
}

TEST_CASE("Version counters do not advance") {
  const auto matrix = torch::ones({4, 3});
  const Tensors gradients = {
      torch::ones({5}), matrix.slice(1, 0, 2), torch::ones({2}, at::kHalf),
      torch::sparse_coo_tensor(torch::tensor({{0, 0}}), torch::ones({2}), {3})};
  std::vector<std::int64_t> versions;
  for (const auto& gradient : gradients) versions.push_back(gradient._version());
  clip_grad_norm_(with_gradients(gradients), 0.5);
  clip_grad_value_(with_gradients(gradients), 0.01);
  for (std::size_t i = 0; i < gradients.size(); ++i) CHECK(gradients[i]._version() == versions[i]);
  CHECK(gradients[0][0].item<float>() == 0.01F);
}

TEST_CASE("The same list gives the same bits on 1, 2 and 4 threads and in 100 runs") {
  torch::manual_seed(8);
  Tensors gradients;
  for (int i = 0; i < 40; ++i) gradients.push_back(torch::randn({1 + i * 1009}));
  gradients.push_back(torch::randn({300'001}).to(at::kBFloat16));
  at::Tensor norm;
  Tensors first;
  for (int run = 0; run < 100; ++run) {
    torch::set_num_threads(run % 3 == 0 ? 1 : run % 3 == 1 ? 2 : 4);
    const Tensors copies = cloned(gradients);  // at fresh addresses
    const auto result = clip_grad_norm_(with_gradients(copies), 1);
    if (run == 0) {
      norm = result.total_norm;
      first = copies;
    }
    REQUIRE(same_bits(result.total_norm, norm));
    REQUIRE(same_bits(copies, first));
  }
  torch::set_num_threads(1);
}

}  // namespace ddpscope::test::lists_test
