// Programs that compute a loss of the wrong shape, of the wrong values or twice normalised, each
// beside its correct twin.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
namespace F = torch::nn::functional;
using torch::optim::SGD;

at::Tensor rows() { return torch::randn({8, 8}); }
at::Tensor labels(std::int64_t from = 0) { return torch::arange(8).remainder(4) + from; }

/// Trains on a loss of the four outputs for eight rows.
void train_on(Net& net, const std::function<at::Tensor(const at::Tensor&)>& loss, int steps = 4) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return loss(net->forward(rows())); }, steps);
}

std::string what_of(const std::string& id) {
  const auto all = findings();
  const Finding* found = find(all, id);
  REQUIRE(found != nullptr);
  return found->what;
}

/// What an operator is given out of its range is said though the operator throws.
void check_refused(const std::function<at::Tensor(const at::Tensor&)>& loss, const std::string& op,
                   const std::string& what) {
  Net net;
  CHECK_THROWS(train_on(net, loss));
  CHECK(what_of("loss-target-range") == what);
  expect_at_exit(
      {"loss-target-range error - - - " + op, "module-operator-failed error - - - " + op});
}
}  // namespace

TEST_CASE("A target that lacks a dimension is found with its shapes") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    return torch::mse_loss(out.slice(1, 0, 1), torch::ones({8}));
  });
  check_findings({"loss-broadcast warning - - both_broadcast aten::mse_loss"});
  CHECK(what_of("loss-broadcast") ==
        "prediction [8, 1] and target [8] broadcast to [8, 8]; 64 terms instead of 8");
}

TEST_CASE("A loss in the closure of a step is looked at") {
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::LBFGS optimizer(net->parameters(), torch::optim::LBFGSOptions(0.01).max_iter(2));
  const auto loss = [&] {
    return torch::mse_loss(net->forward(rows()).slice(1, 0, 1), torch::ones({8}));
  };
  train_by_closure(optimizer, loss, 4);
  check_findings({"loss-broadcast warning - - both_broadcast aten::mse_loss"});
}

TEST_CASE("A target that a functional loss expands is found with its shapes") {
  Net net;
  train_on(net,
           [](const at::Tensor& out) { return F::mse_loss(out.slice(1, 0, 1), torch::ones({8})); });
  check_findings({"loss-broadcast warning - - both_broadcast aten::mse_loss"});
  CHECK(what_of("loss-broadcast") ==
        "prediction [8, 1] and target [8] broadcast to [8, 8]; 64 terms instead of 8");
}

TEST_CASE("A difference that is broadcast on both sides is found") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    return (torch::ones({8}) - out.slice(1, 0, 1)).abs().mean();
  });
  check_findings({"loss-broadcast warning - - both_broadcast aten::sub"});
}

TEST_CASE("Losses of equal shapes, of pairs and against numbers are silent") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    const at::Tensor first = out.select(1, 0);
    return torch::mse_loss(first, torch::ones({8})) + F::mse_loss(out, torch::ones({8, 4})) +
           (out - torch::ones({})).square().mean() +
           (first.unsqueeze(1) - torch::ones({8})).square().mean() +
           std::get<0>((out.slice(1, 0, 1) - torch::ones({8})).abs().min(1)).mean();
  });
  check_silent();
}

TEST_CASE("Softmax before cross_entropy is found with its values") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    return F::cross_entropy(torch::softmax(out, 1), labels());
  });
  check_findings({"loss-double-softmax warning - - - aten::softmax"});
  CHECK(what_of("loss-double-softmax") ==
        "its output enters cross_entropy, which applies log-softmax again");
  const auto all = findings();
  CHECK(find(all, "loss-double-softmax")->why.rfind("its values lie in [0.", 0) == 0);
}

TEST_CASE("Sigmoid before binary_cross_entropy_with_logits is found") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    return F::binary_cross_entropy_with_logits(torch::sigmoid(out), torch::ones({8, 4}));
  });
  check_findings({"loss-double-softmax warning - - - aten::sigmoid"});
}

TEST_CASE("Probabilities in nll_loss are found as an error") {
  Net net;
  train_on(net,
           [](const at::Tensor& out) { return F::nll_loss(torch::softmax(out, 1), labels()); });
  check_findings({"loss-double-softmax error - - - aten::softmax"});
}

TEST_CASE("Losses that normalise once are silent") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    const at::Tensor soft = torch::softmax(out.detach(), 1);
    const at::Tensor weighted = torch::softmax(out, 1).matmul(torch::ones({4, 4}));
    return F::cross_entropy(out, labels()) + F::cross_entropy(out, soft) +
           F::cross_entropy(weighted, labels()) +
           F::nll_loss(torch::log_softmax(out, 1), labels()) +
           F::binary_cross_entropy(torch::sigmoid(out), soft) +
           F::binary_cross_entropy_with_logits(out, soft);
  });
  check_silent();
}

TEST_CASE("Labels that run from one are found before cross_entropy throws") {
  check_refused([](const at::Tensor& out) { return F::cross_entropy(out, labels(1)); },
                "aten::cross_entropy_loss",
                "2 of 8 targets are outside [0, 3]: maximum 4, first at index 3");
}

TEST_CASE("Labels of images are judged by their classes") {
  check_refused(
      [](const at::Tensor& out) {
        return torch::nll_loss_nd(out.view({2, 4, 2, 2}), labels(-1).view({2, 2, 2}));
      },
      "aten::nll_loss_nd", "2 of 8 targets are outside [0, 3]: minimum -1, first at index 0");
}

TEST_CASE("Labels in a column of a table are judged along their rows") {
  check_refused(
      [](const at::Tensor& out) {
        return F::cross_entropy(out, torch::stack({labels(), labels(1)}, 1).select(1, 1));
      },
      "aten::cross_entropy_loss", "2 of 8 targets are outside [0, 3]: maximum 4, first at index 3");
}

TEST_CASE("Logits in binary_cross_entropy are found before it throws") {
  check_refused(
      [](const at::Tensor& out) {
        return F::binary_cross_entropy(torch::ones_like(out) * 1.5 + 0 * out, torch::ones({8, 4}));
      },
      "aten::binary_cross_entropy",
      "32 of 32 inputs are outside [0, 1]: maximum 1.5, 0 NaN, first at index 0");
}

TEST_CASE("NaN in binary_cross_entropy is found before it throws") {
  check_refused(
      [](const at::Tensor& out) {
        return F::binary_cross_entropy(torch::sigmoid(out) * std::nan(""), torch::ones({8, 4}));
      },
      "aten::binary_cross_entropy", "32 of 32 inputs are outside [0, 1]: 32 NaN, first at index 0");
}

TEST_CASE("An index beyond a table is found before embedding throws") {
  check_refused(
      [](const at::Tensor& out) {
        return (out + F::embedding(labels(1), torch::ones({4, 4}))).mean();
      },
      "aten::embedding", "2 of 8 indices are outside [0, 3]: maximum 4, first at index 3");
}

TEST_CASE("An index beyond a dimension is found before gather throws") {
  check_refused([](const at::Tensor& out) { return out.gather(-1, labels(1).unsqueeze(1)).mean(); },
                "aten::gather", "2 of 8 indices are outside [0, 3]: maximum 4, first at index 3");
}

TEST_CASE("An index that is expanded over columns is counted in each of them") {
  check_refused(
      [](const at::Tensor& out) {
        return out.gather(1, labels(1).unsqueeze(1).expand({8, 3})).mean();
      },
      "aten::gather", "6 of 24 indices are outside [0, 3]: maximum 4, first at index 9");
}

TEST_CASE("An index beyond a dimension is found before index_select throws") {
  check_refused([](const at::Tensor& out) { return out.index_select(1, labels(1)).mean(); },
                "aten::index_select",
                "2 of 8 indices are outside [0, 3]: maximum 4, first at index 3");
}

TEST_CASE("An index beyond a dimension is found before scatter throws") {
  check_refused(
      [](const at::Tensor& out) {
        return torch::zeros({8, 4}).scatter(1, labels(1).unsqueeze(1), out).mean();
      },
      "aten::scatter", "2 of 8 indices are outside [0, 3]: maximum 4, first at index 3");
}

TEST_CASE("A class beyond their number is found before one_hot throws") {
  check_refused([](const at::Tensor& out) { return (out * torch::one_hot(labels(1), 4)).mean(); },
                "aten::one_hot", "2 of 8 indices are outside [0, 3]: maximum 4, first at index 3");
}

TEST_CASE("Labels, indices and probabilities in their range are silent") {
  Net net;
  auto table = torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 4).padding_idx(0));
  train_on(net, [&](const at::Tensor& out) {
    const at::Tensor ignored = labels().masked_fill(labels().eq(1), -100);
    const at::Tensor filled = labels().masked_fill(labels().eq(1), -1);
    const auto fill = F::CrossEntropyFuncOptions().ignore_index(-1);
    const auto smooth = F::CrossEntropyFuncOptions().label_smoothing(0.1);
    const at::Tensor none = torch::zeros({0}, torch::kLong);
    return F::cross_entropy(out, ignored) + F::cross_entropy(out, filled, fill) +
           F::cross_entropy(out, labels(), smooth) +
           F::cross_entropy(out, torch::softmax(torch::randn({8, 4}), 1)) +
           F::binary_cross_entropy(torch::sigmoid(out), torch::rand({8, 4})) +
           out.gather(1, labels().unsqueeze(1).expand({8, 3})).mean() +
           out.index_select(0, none).sum() + out.gather(1, labels().unsqueeze(1)).mean() +
           (out * torch::one_hot(labels())).mean() + (out + table(labels()).detach()).mean();
  });
  check_silent();
}

TEST_CASE("At level watch values are not looked at") {
  Net net;
  Options options = quiet();
  options.level = "watch";
  attach_diagnostics(net, options);
  SGD optimizer(net->parameters(), 0.01);
  CHECK_THROWS(train(optimizer, [&] { return F::cross_entropy(net->forward(rows()), labels(1)); }));
  expect_at_exit({"module-operator-failed error - - - aten::cross_entropy_loss"});
}

TEST_CASE("A target network that holds the parameters of the online one is found") {
  auto online = std::make_shared<NetImpl>();
  auto target = std::make_shared<NetImpl>(*online);
  attach_diagnostics(*online, quiet()).name("online");
  attach_diagnostics(*target, quiet()).name("target");
  SGD optimizer(online->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor x = rows();
    at::Tensor expected;
    {
      const torch::NoGradGuard guard;
      expected = target->forward(x);
    }
    return (online->forward(x) - expected).square().mean() + online->loss();
  });
  check_findings({"module-copy-shares warning - - - -"});
  CHECK(what_of("module-copy-shares") == "shares 4 of 4 parameters with online");
}

TEST_CASE("A copied holder that is given a name of its own is found") {
  Net online;
  Net target = online;
  attach_diagnostics(online, quiet()).name("online");
  attach_diagnostics(target, quiet()).name("target");
  {
    const torch::NoGradGuard guard;
    for (at::Tensor& parameter : target->parameters()) parameter.copy_(parameter);
  }
  SGD optimizer(online->parameters(), 0.01);
  train(optimizer, [&] { return online->loss(); });
  check_findings({"module-copy-shares warning - - - -"});
}

TEST_CASE("A target network with parameters of its own is silent") {
  Net online, target;
  attach_diagnostics(online, quiet()).name("online");
  attach_diagnostics(target, quiet()).name("target");
  SGD optimizer(online->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor x = rows();
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < 4; ++i) target->parameters()[i].copy_(online->parameters()[i]);
    const at::Tensor expected = target->forward(x);
    const at::AutoGradMode on(true);
    return (online->forward(x) - expected).square().mean() + online->loss();
  });
  check_silent(2);
}

}  // namespace ddpscope::test
