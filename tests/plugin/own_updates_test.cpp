// Loops whose updates are the program's own: gradients that nobody clears are found, whatever
// writes the parameters, and every way to clear them is silent.
#include <algorithm>
#include <set>

#include "tests/support/torch_test.h"

namespace ddpscope::test::own_updates_test {
namespace {
using Way = std::function<void(at::Tensor& parameter)>;
constexpr double kRate = 0.01;

void write_in_place(at::Tensor& parameter) {
  const torch::NoGradGuard guard;
  parameter.sub_(kRate * parameter.grad());
}
void write_through_data(at::Tensor& parameter) { parameter.data().sub_(kRate * parameter.grad()); }
void write_new_data(at::Tensor& parameter) {
  parameter.set_data(parameter.data() - kRate * parameter.grad());
}

void do_nothing(at::Tensor&) {}
const std::vector<Way> kUpdates = {write_in_place, write_through_data, write_new_data};
const std::vector<Way> kClears = {
    [](at::Tensor& parameter) { parameter.mutable_grad() = at::Tensor(); },
    [](at::Tensor& parameter) { parameter.mutable_grad().zero_(); },
    [](at::Tensor& parameter) { parameter.grad().data().zero_(); },
    [](at::Tensor& parameter) { parameter.mutable_grad().mul_(0.9); },
    [](at::Tensor& parameter) { parameter.mutable_grad() = at::zeros_like(parameter); }};

Options at(const std::string& level) {
  Options options = quiet();
  options.level = level;
  return options;
}

// Changes of the gradients that updates begin with, and what may follow a clear.
const std::vector<Way> kChanges = {
    [](at::Tensor& parameter) { parameter.mutable_grad().div_(2); },
    [](at::Tensor& parameter) { parameter.grad().data().div_(2); },
    [](at::Tensor& parameter) { torch::nn::utils::clip_grad_norm_(parameter, 0.1); }};
void keep_small(at::Tensor& parameter) { parameter.data().clamp_(-9, 9); }

/// Eight updates of a model of its own, of which each may follow several backwards.
Net train_by_hand(const std::string& level, const Way& update, const Way& clear, int backwards) {
  Net net;
  attach_diagnostics(net, at(level));
  net->train();  // where nothing is attached it is found by that
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < backwards; ++k) net->loss().backward();
    for (at::Tensor& parameter : net->parameters()) {
      update(parameter);
      clear(parameter);
    }
  }
  return net;
}

void check_stale(const std::string& level) {
  std::vector<Net> alive;  // else they have one label, and the finding is told once
  for (const Way& update : kUpdates) alive.push_back(train_by_hand(level, update, do_nothing, 1));
  alive.push_back(train_by_hand(level, write_in_place, do_nothing, 3));
  check_findings(std::vector<std::string>(4, "optim-stale-gradient error - - never_zeroed -"));
}

void check_stale_after(const Way& change) {
  const auto update = [&change](at::Tensor& parameter) {
    change(parameter);
    write_in_place(parameter);
  };
  const Net alive = train_by_hand("values", update, do_nothing, 2);
  check_findings({"optim-stale-gradient error - - never_zeroed -"});
}

void check_cleared(const std::string& level) {
  for (const Way& clear : kClears) {
    train_by_hand(level, write_through_data, clear, 1);
    train_by_hand(level, write_in_place, clear, 3);
  }
  check_silent();
}

/// Gradients are changed through their data, before or after the step.
void train_with_optimizer(const std::string& level, const Way& before, const Way& after) {
  Net net;
  attach_diagnostics(net, at(level));
  torch::optim::SGD optimizer(net->parameters(), kRate);
  for (int i = 0; i < 8; ++i) {
    net->loss().backward();
    for (at::Tensor& parameter : net->parameters()) before(parameter);
    optimizer.step();
    for (at::Tensor& parameter : net->parameters()) after(parameter);
  }
}

class Lion : public torch::optim::Optimizer {
 public:
  explicit Lion(std::vector<at::Tensor> parameters)
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                  std::make_unique<torch::optim::SGDOptions>(kRate)) {}
  at::Tensor step(LossClosure = nullptr) override {
    for (auto& group : param_groups()) std::ranges::for_each(group.params(), write_in_place);
    return {};
  }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
};

void train_with_lion(bool clears) {
  Net net;
  attach_diagnostics(net, quiet());
  Lion optimizer(net->parameters());
  for (int i = 0; i < 80; ++i) {
    if (clears) optimizer.zero_grad();
    net->loss().backward();
    optimizer.step();
  }
}

const void* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

void zero_data(at::Tensor& parameter) { parameter.grad().data().zero_(); }
void average_data(at::Tensor& parameter) { parameter.grad().data().div_(2); }
}  // namespace

TEST_CASE("Gradients that no update of the program's own clears are stale") {
  check_stale("values");
}
TEST_CASE("They are at level watch too") { check_stale("watch"); }

TEST_CASE("Gradients that are averaged before such updates are no less stale") {
  check_stale_after(kChanges[0]);
}
TEST_CASE("Gradients that are averaged through their data before such updates are stale") {
  check_stale_after(kChanges[1]);
}
TEST_CASE("Gradients that are clipped before such updates are stale") {
  check_stale_after(kChanges[2]);
}
TEST_CASE("Gradients that are changed before and cleared after such updates are silent") {
  for (const Way& change : kChanges) {
    for (const Way& clear : kClears) {
      train_by_hand(
          "values",
          [&](at::Tensor& parameter) {
            change(parameter);
            write_through_data(parameter);
          },
          [&](at::Tensor& parameter) {
            clear(parameter);
            keep_small(parameter);
          },
          1);
    }
  }
  check_silent();
}

TEST_CASE("What lies in the memory of a model that died is not cut from it") {
  std::set<const void*> left;
  {
    std::vector<Net> models;
    for (int i = 0; i < 2; ++i) {
      models.push_back(train_by_hand("values", write_through_data, kClears[0], 1));
      left.insert(storage_of(models.back()->first->weight));
    }
  }
  std::vector<at::Tensor> inputs;
  do inputs.push_back(input());
  while (inputs.size() < 1000 && !left.contains(storage_of(inputs.back())));
  REQUIRE(left.contains(storage_of(inputs.back())));
  // The gradients of those that died are long ago then.
  const Net alive = train_by_hand("values", write_through_data, kClears[0], 1);
  Net net;
  attach_diagnostics(net, at("values"));
  for (int i = 0; i < 8; ++i) {
    net->forward(inputs.back()).square().mean().backward();
    for (at::Tensor& parameter : net->parameters()) {
      write_in_place(parameter);
      kClears[1](parameter);
    }
  }
  check_silent();
}

TEST_CASE("What lies where a parameter moved away from is not that parameter") {
  const Net moved = train_by_hand("values", do_nothing, do_nothing, 1);
  at::Tensor weight = moved->first->weight;
  const void* const left = storage_of(weight);
  weight.set_data(weight.data() * 1);
  std::vector<at::Tensor> changes;
  do changes.push_back(at::full({}, kRate));
  while (changes.size() < 1000 && storage_of(changes.back()) != left);
  REQUIRE(storage_of(changes.back()) == left);
  const auto update = [&](at::Tensor& parameter) {
    const torch::NoGradGuard guard;
    parameter.sub_(changes.back());
  };
  const Net alive = train_by_hand("values", update, do_nothing, 1);
  check_findings({"optim-stale-gradient error - - never_zeroed -"});
}

TEST_CASE("Updates of the program's own that clear the gradients are silent") {
  check_cleared("values");
}
TEST_CASE("They are at level watch too, however they clear") { check_cleared("watch"); }

TEST_CASE("Gradients that an optimizer of the program's own class never clears are stale") {
  train_with_lion(/*clears=*/false);
  check_findings({"optim-stale-gradient error - - never_zeroed -"});
}

TEST_CASE("An optimizer of the program's own class that clears them is silent") {
  train_with_lion(/*clears=*/true);
  check_silent();
}

TEST_CASE("Gradients that are zeroed through their data are cleared, without reading them") {
  train_with_optimizer("watch", do_nothing, zero_data);
  check_silent();
}

TEST_CASE("Gradients that are averaged through their data before the step are not cleared") {
  train_with_optimizer("watch", average_data, do_nothing);
  check_findings({"optim-stale-gradient error - - never_zeroed -"});
}

TEST_CASE("An update of all parameters by one call is the program's own") {
  Net stepped, updated;
  attach_diagnostics(stepped, at("watch"));
  attach_diagnostics(updated, at("watch"));
  torch::optim::SGD optimizer(stepped->parameters(), kRate);
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    updated->zero_grad();
    (stepped->loss() + updated->loss()).backward();
    optimizer.step();
    const torch::NoGradGuard guard;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : updated->parameters()) gradients.push_back(parameter.grad());
    at::_foreach_add_(updated->parameters(), gradients, -kRate);
  }
  check_findings({});
  const auto all = findings();
  const Finding* found = find(all, "optim-missing-parameter");
  REQUIRE(found != nullptr);
  CHECK(found->severity == "note");
  CHECK(found->why.find("the program writes them itself with aten::_foreach_add_") !=
        std::string::npos);
}

}  // namespace ddpscope::test::own_updates_test
