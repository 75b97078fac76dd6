// Programs that average with c10d::Reducer, as they are written in C++.
#include <fstream>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
constexpr int kThrew = 3;
constexpr int kUnsaid = 4;

struct HeadsImpl : torch::nn::Module {
  at::Tensor main_loss() { return head(hidden()).square().mean(); }
  at::Tensor aux_loss() { return aux(hidden()).square().mean(); }
  at::Tensor hidden() { return body(input()).relu(); }
  torch::nn::Linear body = register_module("body", torch::nn::Linear(8, 16));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 4));
  torch::nn::Linear aux = register_module("aux", torch::nn::Linear(16, 2));
};
TORCH_MODULE(Heads);

/// In what a program differs from the plainest one.
struct Way {
  bool with_aux = true;
  bool finds_unused = false;
  bool bucket_views = false;
  bool is_static = false;
  bool delays = false;
  bool accumulates = false;    ///< a backward without averages before the one with them
  bool in_two = false;         ///< a backward for each loss
  bool clears_module = false;  ///< not the optimizer
  bool sets_to_none = true;
  bool rebuilds = true;
};

class Training {
 public:
  Training(const Place& place, const Way& way)
      : way_(way), optimizer_(net_->parameters(), torch::optim::SGDOptions(0.01)) {
    attach_diagnostics(net_, quiet());
    group_ = c10::make_intrusive<c10d::ProcessGroup>(place.store, place.rank, place.ranks);
    group_->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, place.group());
    group_->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    const std::vector<at::Tensor> parameters = net_->parameters();
    const std::vector<bool> dense(parameters.size(), false);
    const auto buckets =
        std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {512}, dense));
    reducer_ = std::make_shared<c10d::Reducer>(
        parameters, std::vector(buckets.rbegin(), buckets.rend()), group_, dense, 512,
        way.finds_unused, way.bucket_views, std::unordered_map<std::size_t, std::string>(), 512,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        std::vector<std::int64_t>());
    if (way.is_static) reducer_->set_static_graph();
    torch::manual_seed(100 + place.rank);
  }

  void step() {
    ++steps_;
    if (way_.clears_module) {
      net_->zero_grad(way_.sets_to_none);
    } else {
      optimizer_.zero_grad(way_.sets_to_none);
    }
    if (way_.accumulates) loss().backward();
    reducer_->prepare_for_forward();
    if (way_.rebuilds && reducer_->should_rebuild_buckets()) reducer_->rebuild_buckets();
    run_pass();
    if (way_.delays && steps_ == 1) reducer_->delay_all_reduce();
    optimizer_.step();
  }

 private:
  at::Tensor loss() {
    const at::Tensor aux = net_->aux_loss();
    return way_.with_aux ? net_->main_loss() + aux : net_->main_loss();
  }

  void run_pass() {
    if (way_.in_two) {
      const at::Tensor main = net_->head(torch::ones({5, 16})).square().mean();
      reducer_->prepare_for_backward({});
      main.backward();
      net_->aux_loss().backward();
      return;
    }
    const at::Tensor averaged = loss();
    reducer_->prepare_for_backward(way_.finds_unused ? std::vector<at::Tensor>{averaged}
                                                     : std::vector<at::Tensor>());
    averaged.backward();
  }

  Way way_;
  Heads net_;
  torch::optim::SGD optimizer_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<c10d::Reducer> reducer_;
  int steps_ = 0;
};

/// Ends as a program that says what it caught.
std::function<int(const Place&)> trains(const Way& way, int steps = 5) {
  return [way, steps](const Place& place) {
    Training training(place, way);
    try {
      for (int i = 0; i < steps; ++i) training.step();
    } catch (const c10::Error& error) {
      std::fprintf(stderr, "rank %d: %s\n", place.rank, error.what_without_backtrace());
      return kThrew;
    }
    return 0;
  };
}

/// The findings of a rank above a note, as they stand in its file.
std::vector<nlohmann::json> found_on(int rank) {
  std::map<std::string, nlohmann::json> latest;
  std::ifstream file(report_dir() + "/rank-" + std::to_string(rank) + ".jsonl");
  for (std::string line; std::getline(file, line);) {
    auto record = nlohmann::json::parse(line);
    const bool counts = record.at("record") == "finding" && record.at("severity") != "note";
    if (counts) latest[record.at("fingerprint")] = record;
  }
  std::vector<nlohmann::json> found;
  for (auto& [fingerprint, record] : latest) found.push_back(std::move(record));
  return found;
}

nlohmann::json only_finding_on(int rank) {
  const auto found = found_on(rank);
  for (const auto& one : found) UNSCOPED_INFO(one.dump());
  REQUIRE(found.size() == 1);
  return found.front();
}
}  // namespace

TEST_CASE("A Reducer that averages every gradient is silent") {
  const auto way = GENERATE(Way{}, Way{.with_aux = false, .finds_unused = true},
                            Way{.is_static = true, .delays = true},
                            Way{.bucket_views = true, .clears_module = true},
                            Way{.bucket_views = true, .clears_module = true, .sets_to_none = false},
                            Way{.accumulates = true}, Way{.in_two = true});
  Ranks ranks(2, trains(way));
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  for (const int rank : {0, 1}) {
    const auto found = found_on(rank);
    for (const auto& one : found) UNSCOPED_INFO(one.dump());
    // Of a head that is in no loss the Reducer knows, and grad-missing says it after 4 cycles.
    CHECK(found.size() == (way.with_aux ? 0 : 1));
    for (const auto& one : found) CHECK(one.at("severity") == "warning");
  }
}

TEST_CASE("What a Reducer waits for is named before LibTorch throws") {
  Ranks ranks(2, [](const Place& place) {
    Training training(place, {.with_aux = false});
    training.step();
    const auto all = findings();
    const Finding* found = find(all, "grad-missing");
    if (found == nullptr || found->step != 1) return kUnsaid;
    try {
      training.step();
    } catch (const c10::Error&) {
      return kThrew;
    }
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{kThrew, kThrew});
  for (const int rank : {0, 1}) {
    const auto found = only_finding_on(rank);
    CHECK(found.at("id") == "grad-missing");
    CHECK(found.at("severity") == "error");
    CHECK(found.at("module_path") == "aux");
    CHECK(found.at("step") == 1);
    CHECK(found.at("facts").at("cause") == "result_dropped");
    CHECK(found.at("facts").at("reducer_present") == true);
  }
}

TEST_CASE("What a Reducer waits for is named where LibTorch says nothing") {
  Ranks ranks(2, trains({.with_aux = false, .rebuilds = false}));
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  for (const int rank : {0, 1}) {
    const auto found = only_finding_on(rank);
    CHECK(found.at("id") == "grad-missing");
    CHECK(found.at("severity") == "error");
    CHECK(found.at("first_step") == 1);
    CHECK(found.at("last_step") == 5);
  }
}

TEST_CASE("A static graph whose averages nobody asks for is found in its first step") {
  Ranks ranks(2, trains({.is_static = true}));
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  for (const int rank : {0, 1}) {
    const auto found = only_finding_on(rank);
    CHECK(found.at("id") == "grad-not-reduced");
    CHECK(found.at("severity") == "error");
    CHECK(found.at("step") == 1);
    CHECK(found.at("last_step") == 5);  // it never averages
    CHECK(found.at("facts").at("cause") == "static_graph");
  }
}

TEST_CASE("Clearing gradients that are views of buckets says how to clear them") {
  const bool sets_to_none = GENERATE(true, false);
  Ranks ranks(2, trains({.bucket_views = true, .sets_to_none = sets_to_none}));
  REQUIRE(ranks.exit_codes() == std::vector<int>{kThrew, kThrew});
  for (const int rank : {0, 1}) {
    const auto found = only_finding_on(rank);
    CHECK(found.at("id") == "module-operator-failed");
    CHECK(found.at("op") == "aten::detach_");
    const std::string why = found.at("why");
    CHECK(why.find("gradient_as_bucket_view") != std::string::npos);
    CHECK(found.at("fixes").at(0).at("applicability") == "safe");
  }
}

}  // namespace ddpscope::test
