// The setting `sync_batch_norm` in a program of one process, whose group imitates a second rank.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ddpscope/ops.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/torch_test.h"

namespace ddpscope::test::norms_over_ranks_test {
namespace {
using torch::nn::BatchNorm2d;
using torch::nn::BatchNorm2dOptions;

struct ConvNetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return untracked(second(conv(first(x)))) + instance(x);
  }
  BatchNorm2d first = register_module("first", BatchNorm2d(3));
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(3, 3, 1));
  BatchNorm2d second = register_module("second", BatchNorm2d(BatchNorm2dOptions(3).affine(false)));
  BatchNorm2d untracked =
      register_module("untracked", BatchNorm2d(BatchNorm2dOptions(3).track_running_stats(false)));
  torch::nn::InstanceNorm2d instance = register_module(
      "instance", torch::nn::InstanceNorm2d(
                      torch::nn::InstanceNorm2dOptions(3).affine(true).track_running_stats(true)));
};
TORCH_MODULE(ConvNet);

/// Calls the operator with tensors under names of its own.
struct OwnNorm : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mean) {
    return torch::batch_norm(x, gain, {}, mean, mean.defined() ? spread : mean, is_training(), 0.1,
                             1e-5, false);
  }
  at::Tensor gain = register_parameter("gain", torch::ones({3}));
  at::Tensor average = register_buffer("average", torch::zeros({3}));
  at::Tensor spread = register_buffer("spread", torch::ones({3}));
};

/// Another rank with the same batches: every sum is twice the own record.
struct Twin {
  int sums = 0;
  CommunicatorPtr group = make_communicator(0, 2, [this](at::Tensor& record) {
    ++sums;
    record.mul_(2);
  });
};

Options synchronised() {
  Options options = quiet();
  options.sync_batch_norm = true;
  return options;
}

at::Tensor batch() { return torch::randn({4, 3, 5, 5}) * 2 + 1; }

int sums_of(Twin& twin, const std::function<void()>& program) {
  const int before = twin.sums;
  program();
  return twin.sums - before;
}

void attach_without(const std::string& excluded, ConvNet& net, const Twin& twin) {
  set_batch_norm_communicator(twin.group);
  Options options = synchronised();
  options.sync_batch_norm_exclude = excluded;
  attach_diagnostics(net, options);
}

std::string said_by(const std::function<void()>& program) {
  const std::string path = report_dir() + ".said";
  REQUIRE(std::freopen(path.c_str(), "w", stderr) != nullptr);
  program();
  std::fflush(stderr);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool is_taken() {
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::batch_norm", ""});
  return op->hasKernelForDispatchKey(c10::DispatchKey::AutogradCPU);
}
}  // namespace

TEST_CASE("Batch norms of an attached model run over the ranks of the group") {
  Twin twin, other;
  ConvNet net;
  set_batch_norm_communicator(twin.group);
  attach_diagnostics(net, synchronised());
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 4);  // once for the lists of layers
  const at::Tensor x = batch();
  // By three layers each way; an instance norm is none.
  CHECK(sums_of(twin, [&] { net->forward(x).square().sum().backward(); }) == 6);

  BatchNorm2d norm = net->first;
  SyncBatchNorm2d reference(BatchNorm2dOptions(3), other.group, "first");
  for (const auto& item : norm->named_buffers()) {
    reference->named_buffers()[item.key()].copy_(item.value());
  }
  CHECK(torch::equal(norm->forward(x), reference->forward(x)));
  CHECK(torch::equal(norm->running_var, reference->running_var));
  CHECK(norm->num_batches_tracked.item<std::int64_t>() ==
        reference->num_batches_tracked.item<std::int64_t>());
  check_silent(1, 0);
}

TEST_CASE("Layers in evaluation and those that are excluded stay local") {
  Twin twin;
  ConvNet net;
  attach_without("fir*,untracked", net, twin);
  net->eval();
  // The untracked one normalises by its batch in evaluation, too: not even lists are compared.
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 0);
  net->train();
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 2);
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 1);
  net->second->eval();
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 0);
}

TEST_CASE("A list of excluded layers that matches none is told") {
  Twin twin;
  ConvNet net;
  const std::string said = said_by([&] {
    attach_without("frist*", net, twin);
    CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 4);
  });
  CHECK(said.find("sync_batch_norm_exclude=frist* matches the path of no layer") !=
        std::string::npos);
}

TEST_CASE("A model in which no layer can be told is told of once, unless that was asked for") {
  Twin twin;
  const std::string excluded = GENERATE("", "0");
  torch::nn::Sequential net(
      BatchNorm2d(BatchNorm2dOptions(3).affine(false).track_running_stats(false)));
  Options options = synchronised();
  options.sync_batch_norm_exclude = excluded;
  const std::string said = said_by([&] {
    set_batch_norm_communicator(twin.group);
    attach_diagnostics(net, options);
    net->eval();
    net->forward(batch());
    net->train();
    for (int i = 0; i < 3; ++i) net->forward(batch());
  });
  CHECK(twin.sums == 0);
  const auto at = said.find("a layer cannot be told: 0 runs over the batch of each rank");
  CHECK((at != std::string::npos) == excluded.empty());
  CHECK(at == said.rfind("a layer cannot be told"));
}

TEST_CASE("A frozen layer that trains is synchronised") {
  Twin twin;
  ConvNet net;
  for (auto& parameter : net->first->parameters()) parameter.requires_grad_(false);
  set_batch_norm_communicator(twin.group);
  attach_diagnostics(net, synchronised());
  net->forward(batch());
  CHECK(sums_of(twin, [&] { net->first->forward(batch()); }) == 1);
}

TEST_CASE("Copies and foreign layers and other threads and InferenceMode stay local") {
  Twin twin;
  ConvNet net;
  set_batch_norm_communicator(twin.group);
  attach_diagnostics(net, synchronised());
  net->forward(batch());
  BatchNorm2d foreign(3), copy(net->first->options);
  copy->weight.set_data(net->first->weight.detach());
  CHECK(sums_of(twin, [&] { foreign->forward(batch()); }) == 0);
  CHECK(sums_of(twin, [&] { copy->forward(batch()); }) == 0);
  CHECK(sums_of(twin, [&] { std::thread([&] { net->forward(batch()); }).join(); }) == 0);
  CHECK(sums_of(twin, [&] {
          const c10::InferenceMode inference;
          net->forward(batch());
        }) == 0);
  CHECK(sums_of(twin, [&] { net->first->forward(batch()); }) == 1);
}

TEST_CASE("A module that calls the operator with tensors of any name runs over the ranks") {
  Twin twin;
  const auto net = std::make_shared<OwnNorm>();
  set_batch_norm_communicator(twin.group);
  attach_diagnostics(net, synchronised());
  CHECK(sums_of(twin, [&] { net->forward(batch(), net->average); }) == 2);
  CHECK(sums_of(twin, [&] { net->forward(batch(), {}); }) == 1);
  CHECK(net->average.sum().item<double>() != 0);
  net->eval();
  CHECK(sums_of(twin, [&] { net->forward(batch(), net->average); }) == 0);
}

TEST_CASE("A module of own tensors that is excluded stays local") {
  Twin twin;
  ConvNet net;
  const auto own = net->register_module("own", std::make_shared<OwnNorm>());
  attach_without("own", net, twin);
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 4);
  CHECK(sums_of(twin, [&] { own->forward(batch(), own->average); }) == 0);
}

TEST_CASE("Lists of layers that differ keep all layers local") {
  int sums = 0;
  // A rank whose list is empty: its numbers of the first sum are others, of all later ones 0.
  const auto group = make_communicator(0, 2, [&](at::Tensor& record) {
    if (++sums == 1) record.mul_(2)[0].add_(1);
  });
  ConvNet net;
  set_batch_norm_communicator(group);
  attach_diagnostics(net, synchronised());
  ConvNet other;
  for (const auto& item : other->named_parameters()) {
    at::NoGradGuard no_grad;
    item.value().copy_(net->named_parameters()[item.key()]);
  }
  const at::Tensor x = batch();
  const at::Tensor y = net->forward(x);
  CHECK(sums > 1);
  const int compared = sums;
  CHECK(torch::equal(y, other->forward(x)));
  net->forward(x);
  CHECK(sums == compared);
}

TEST_CASE("A comparison of layers that fails says what it was") {
  const auto group = make_communicator(
      0, 2, [](at::Tensor&) { throw std::runtime_error("connection closed by peer"); });
  ConvNet net;
  set_batch_norm_communicator(group);
  attach_diagnostics(net, synchronised());
  std::string said;
  try {
    net->forward(batch());
  } catch (const c10::Error& error) {
    said = error.what();
  }
  CHECK(said.find("connection closed by peer") != std::string::npos);
  CHECK(said.find("comparison of the layers of sync_batch_norm") != std::string::npos);
  net->forward(batch());  // local from then on
}

TEST_CASE("After the last detach batch norm is LibTorch's again until the next attach") {
  Twin twin;
  ConvNet net, second;
  set_batch_norm_communicator(twin.group);
  CHECK(!is_taken());
  auto attachment = attach_diagnostics(net, synchronised());
  auto also = attach_diagnostics(second, synchronised());
  CHECK(is_taken());
  net->forward(batch());
  also.detach();
  CHECK(sums_of(twin, [&] { second->forward(batch()); }) == 0);
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 3);
  attachment.detach();
  CHECK(!is_taken());
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 0);
  attach_diagnostics(net, synchronised());
  CHECK(is_taken());
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 4);
}

TEST_CASE("Without the setting batch norm is LibTorch's own") {
  Twin twin;
  ConvNet net;
  set_batch_norm_communicator(twin.group);
  attach_diagnostics(net, quiet());
  CHECK(!is_taken());
  CHECK(sums_of(twin, [&] { net->forward(batch()); }) == 0);
}

TEST_CASE("Without a group layers stay local and train the same bits") {
  const auto trained = [](const Options& options) {
    torch::manual_seed(3);
    ConvNet net;
    attach_diagnostics(net, options);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      net->forward(batch()).square().mean().backward();
      optimizer.step();
    }
    return torch::cat({net->conv->weight.flatten(), net->first->weight.detach(),
                       net->first->running_var, net->second->running_mean});
  };
  const auto off = in_child([&] {
    torch::save(trained(quiet()), report_dir() + "/off.pt");
    return 0;
  });
  CHECK(off.exit_code == 0);
  at::Tensor expected;
  const at::Tensor found = trained(synchronised());
  torch::load(expected, report_dir() + "/off.pt");
  CHECK(torch::equal(found, expected));
}

}  // namespace ddpscope::test::norms_over_ranks_test
