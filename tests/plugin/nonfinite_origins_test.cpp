// NaN and Inf whose origin lies next to what does not make them.
#include <cmath>

#include "tests/support/torch_test.h"

namespace ddpscope::test::nonfinite_origins_test {
namespace {
constexpr double kRate = 0.01;

struct AttentionImpl : torch::nn::Module {
  torch::nn::Linear query{register_module("query", torch::nn::Linear(8, 8))};
  torch::nn::Linear key{register_module("key", torch::nn::Linear(8, 8))};
  /// `lengths`: of each sequence; what lies behind is padding.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& lengths) {
    const at::Tensor padding = torch::arange(x.size(1)).unsqueeze(0) >= lengths.unsqueeze(1);
    at::Tensor scores = torch::bmm(query(x), key(x).transpose(1, 2)) / std::sqrt(8.0);
    scores = scores.masked_fill(padding.unsqueeze(1), -INFINITY);
    return torch::bmm(torch::softmax(scores, -1), x);
  }
};
TORCH_MODULE(Attention);

/// Steps in half with a loss scale that is halved where a gradient is not finite.
int train_in_half(torch::nn::Linear& net, double divisor) {
  torch::optim::SGD optimizer(net->parameters(), kRate);
  double scale = 1 << 18;
  int skipped = 0;
  for (int i = 0; i < 12; ++i) {
    optimizer.zero_grad();
    const at::Tensor x = torch::ones({4, 8}, at::kHalf);
    (torch::mse_loss(net(x), x.narrow(1, 0, 2)) * scale / divisor).backward();
    const bool finite = torch::isfinite(net->weight.grad()).all().item<bool>();
    if (finite) {
      for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().div_(scale);
      optimizer.step();
    } else {
      scale /= 2;
      ++skipped;
    }
  }
  return skipped;
}

/// What is said of a loss that is not finite in step 4.
Finding found_of(const std::function<at::Tensor(at::Tensor, bool)>& loss) {
  torch::nn::Linear net(8, 4);
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), kRate);
  for (int i = 1; i <= 6; ++i) {
    optimizer.zero_grad();
    loss(net(torch::randn({3, 8})), i == 4).backward();
    optimizer.step();
  }
  const auto all = findings();
  const Finding* found = find(all, "numeric-nonfinite-forward");
  REQUIRE(found != nullptr);
  CHECK(found->step == 4);
  return *found;
}
}  // namespace

TEST_CASE("A row of attention that is all padding is not blamed on the scale before it") {
  Attention net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), kRate);
  for (int i = 1; i <= 6; ++i) {
    optimizer.zero_grad();
    const at::Tensor lengths = torch::tensor({3, i == 5 ? 0 : 6});
    net(torch::randn({2, 6, 8}), lengths).square().mean().backward();
    optimizer.step();
  }
  const auto all = findings();
  const Finding* found = find(all, "numeric-nonfinite-forward");
  REQUIRE(found != nullptr);
  CHECK(found->step == 5);
  CHECK(found->op == "aten::masked_fill");
}

TEST_CASE("A row of NaN that the loss leaves out is told as what forward made") {
  Attention net;
  torch::nn::Linear head(8, 5);
  torch::nn::Sequential all(net, head);
  attach_diagnostics(all, quiet());
  torch::optim::SGD optimizer(all->parameters(), kRate);
  for (int i = 1; i <= 6; ++i) {
    optimizer.zero_grad();
    const at::Tensor lengths = torch::tensor({3, i == 5 ? 0 : 6});
    const at::Tensor labels = torch::randint(5, {12});
    if (i == 5) labels.slice(0, 6).fill_(-100);
    const at::Tensor scores = head(net(torch::randn({2, 6, 8}), lengths)).view({12, 5});
    torch::cross_entropy_loss(scores, labels).backward();
    optimizer.step();
  }
  const auto told = findings();
  CHECK(find(told, "numeric-nonfinite-backward") == nullptr);
  const Finding* found = find(told, "numeric-nonfinite-forward");
  REQUIRE(found != nullptr);
  CHECK(found->step == 5);
  CHECK(found->op == "aten::masked_fill");
  CHECK(found->why.find("between 0.query and 1") != std::string::npos);
}

TEST_CASE("A row that a mask added to scores leaves out as a whole is told of softmax") {
  const Finding found = found_of([](const at::Tensor& y, bool bad) {
    at::Tensor mask = torch::zeros({3, 4});
    mask.slice(0, 0, bad ? 1 : 0).fill_(-INFINITY);
    return torch::softmax(y + mask, 1).square().mean();
  });
  CHECK(found.op.ends_with("softmax"));
  CHECK(found.what.starts_with("4 of 12 output elements are NaN, "));
  CHECK(found.fixes[0].text == "leave at least one element in each row that is not -Inf");
}

TEST_CASE("NaN that data brings into a sum is told of the sum") {
  const Finding found = found_of([](const at::Tensor& y, bool bad) {
    return (y + torch::full({3, 4}, bad ? NAN : 1)).square().mean();
  });
  CHECK(found.op == "aten::add");
}

TEST_CASE("The inverse of a root of 0 is told, not what squared before it") {
  const Finding found = found_of([](at::Tensor y, bool bad) {
    if (bad) y = y * 0;
    return (y * y.square().sum(1, true).rsqrt()).sum();
  });
  CHECK(found.op == "aten::rsqrt");
  CHECK(found.what.find("its input was 0 there") != std::string::npos);
}

TEST_CASE("A sum with what needs no gradient is named, not the mean after it") {
  const Finding found = found_of([](const at::Tensor& y, bool bad) {
    const at::Tensor target = torch::full_like(y, 0.5).detach();
    if (bad) target[0][0] = 0;
    return (target * (target.log() - y)).mean();
  });
  CHECK(found.op == "aten::sub");
  CHECK(found.what.find("one of its inputs, which needs no gradient") != std::string::npos);
}

TEST_CASE("A write of NaN through a view names the operator that wrote") {
  const Finding found = found_of([](const at::Tensor& y, bool bad) {
    if (bad) y.select(0, 1).copy_(torch::full({4}, NAN));
    return y.square().mean();
  });
  CHECK(found.op == "aten::copy_");
}

TEST_CASE("A hook of the program's own that divides by zero is told in its step") {
  torch::manual_seed(1);  // ReLU leaves something of each batch
  torch::nn::Sequential net(torch::nn::Linear(8, 4), torch::nn::ReLU(), torch::nn::Linear(4, 2));
  attach_diagnostics(net, quiet());
  net->parameters()[2].register_hook([](const at::Tensor& g) { return g / g.norm(); });
  torch::optim::SGD optimizer(net->parameters(), kRate);
  for (int i = 1; i <= 6; ++i) {
    optimizer.zero_grad();
    (net->forward(torch::randn({4, 8})).square().mean() * (i == 4 ? 0.0 : 1.0)).backward();
    optimizer.step();
  }
  check_findings({"numeric-nonfinite-gradient error 2 weight - -"});
  CHECK(findings().front().step == 4);
  CHECK(findings().front().why.find("the program's own hook") != std::string::npos);
}

TEST_CASE("A scaled loss of the root that overflows while its gradients do not is silent") {
  torch::nn::Linear net(8, 2);
  net->to(torch::kHalf);
  attach_diagnostics(net, quiet());
  CHECK(train_in_half(net, 1) > 0);
  check_silent();
}

TEST_CASE("A scaled loss that is divided, and overflows while its gradients do not, is silent") {
  torch::nn::Linear net(8, 2);
  net->to(torch::kHalf);
  attach_diagnostics(net, quiet());
  train_in_half(net, 8);
  check_silent();
}

namespace {
/// The operator that is named where `bad` is added to a power, which may have made it, too.
std::string named_beside_a_power(at::Tensor (*bad)(const at::Tensor&)) {
  const auto loss = [bad](const at::Tensor& y, bool is_bad) {
    return ((is_bad ? bad(y) : y) + (y - 1).pow(2)).mean();
  };
  return found_of(loss).op;
}
}  // namespace

TEST_CASE("A logarithm of zero is named beside a power") {
  const auto log = [](const at::Tensor& y) { return torch::log(y * 0); };
  CHECK(named_beside_a_power(log) == "aten::log");
}

TEST_CASE("A logarithm of every second column is named beside a power") {
  const auto log = [](const at::Tensor& y) { return torch::log((y - 9).slice(1, 0, 4, 2)).sum(); };
  CHECK(named_beside_a_power(log) == "aten::log");
}

TEST_CASE("An arc of more than 1 is named beside a power") {
  const auto arc = [](const at::Tensor& y) { return torch::asin(y.abs() + 1.5); };
  CHECK(named_beside_a_power(arc) == "aten::asin");
}

TEST_CASE("A division by zero is named beside a power") {
  const auto quotient = [](const at::Tensor& y) { return y / torch::zeros({4}); };
  CHECK(named_beside_a_power(quotient) == "aten::div");
}

TEST_CASE("A product that is too large for half is named though its gradients are finite") {
  const Finding found = found_of([](const at::Tensor& y, bool is_bad) {
    const at::Tensor half = (y + 1).to(torch::kHalf) * (is_bad ? 1000 : 1);
    return (half * half).mean().to(torch::kFloat) * 1e-8;
  });
  CHECK(found.op == "aten::mul");
  CHECK(text_fact(found, "dtype") == "float16");
}

TEST_CASE("A product is named rather than the cast before it where both are gone") {
  const Finding found = found_of([](const at::Tensor& y, bool is_bad) {
    return ((y + 1).to(torch::kHalf) * (is_bad ? 60000 : 1)).sum().to(torch::kFloat);
  });
  CHECK(found.op == "aten::mul");
}

TEST_CASE("What a batch norm makes of its running statistics is not taken for their fault") {
  at::Tensor mean = torch::zeros({4}), var = torch::ones({4});
  const Finding found = found_of([&](const at::Tensor& x, bool is_bad) {
    const at::Tensor numbers = is_bad ? (x - x.detach()).log() : x;
    return torch::batch_norm(numbers, {}, {}, mean, var, /*training=*/true, 0.1, 1e-5, false).sum();
  });
  CHECK(found.op == "aten::log");
}

TEST_CASE("The statistics of a batch norm without running ones are not taken for the batch") {
  const Finding found = found_of([](const at::Tensor& x, bool is_bad) {
    const at::Tensor numbers = is_bad ? (x - x.detach()).log() : x;
    return torch::batch_norm(numbers, {}, {}, {}, {}, /*training=*/true, 0.1, 1e-5, false).sum();
  });
  CHECK(found.op == "aten::log");
}

namespace {
/// Batches that the program normalises; the last one is constant, or holds a NaN of its own.
Finding finding_of_batches(int steps, bool is_of_data) {
  torch::nn::Linear net(8, 4);
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), kRate);
  for (int i = 1; i <= steps; ++i) {
    at::Tensor image = i == steps ? torch::ones({3, 8}) : torch::randn({3, 8});
    if (is_of_data && i == steps) image[1][2] = std::nan("");
    const at::Tensor x = (image - image.mean()) / image.std();
    optimizer.zero_grad();
    net(x.clone()).square().mean().backward();
    optimizer.step();
  }
  return only(findings(), "numeric-nonfinite-forward");
}

bool names_division(const Finding& found) {
  return found.why.find("in surveyed steps aten::div") != std::string::npos;
}
}  // namespace

TEST_CASE("An operator that makes a batch not finite is named in surveyed steps") {
  const Finding found = finding_of_batches(1, /*is_of_data=*/false);
  CHECK(text_fact(found, "cause") == "operator");
  CHECK(found.op == "aten::div");
  CHECK(found.what == "24 of 24 output elements are NaN, its divisor is 0");
  CHECK(!names_division(found));
}
TEST_CASE("A batch that was not finite before operators read it is the batch") {
  const Finding found = finding_of_batches(1, /*is_of_data=*/true);
  CHECK(text_fact(found, "cause") == "batch");
  CHECK(!names_division(found));
}
TEST_CASE("Of a step without a survey it is told what computed the batch in others") {
  const Finding found = finding_of_batches(50, /*is_of_data=*/false);
  CHECK(text_fact(found, "cause") == "batch");
  CHECK(names_division(found));
}

}  // namespace ddpscope::test::nonfinite_origins_test
