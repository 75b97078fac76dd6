#include "plugin/norm_groups.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tests/support/catch.h"

namespace ddpscope::test::norm_groups_test {
namespace {
struct Named final : c10d::Backend {
  Named(std::string of, int ranks) : Backend(/*rank=*/0, ranks), kind(std::move(of)) {}
  const std::string getBackendName() const override { return kind; }
  std::string kind;
};

c10::intrusive_ptr<Named> named(const char* kind, int ranks = 2) {
  return c10::make_intrusive<Named>(kind, ranks);
}

std::string name_of(const CommunicatorPtr& group) { return group ? group->name() : "none"; }

/// By layers on a GPU, and by layers on the CPU.
std::pair<std::string, std::string> chosen(NormGroups& groups) {
  return {name_of(groups.chosen(c10::kCUDA)), name_of(groups.chosen(c10::kCPU))};
}
using Names = std::pair<std::string, std::string>;
}  // namespace

TEST_CASE("Layers on a GPU run over a group of NCCL, and layers on the CPU over none", "[norm]") {
  const auto gloo = named("gloo"), nccl = named("nccl"), later = named("nccl", 4);
  NormGroups groups(/*world_size=*/2);
  CHECK(chosen(groups) == Names("none", "none"));
  groups.see(*nccl);
  groups.see(*later);
  CHECK(chosen(groups) == Names("a group of nccl", "none"));
  groups.see(*gloo);
  CHECK(chosen(groups) == Names("a group of nccl", "a group of gloo"));
}

TEST_CASE("Layers on a GPU run over another group where none of NCCL was seen", "[norm]") {
  const auto of_some = named("nccl", 2);
  NormGroups groups(/*world_size=*/4);
  groups.see(*of_some);
  CHECK(chosen(groups) == Names("none", "none"));
  const auto of_all = named("gloo", 4);
  groups.see(*of_all);
  CHECK(chosen(groups) == Names("a group of gloo", "a group of gloo"));
}

TEST_CASE("A group that is not chosen is let go, and the given one is chosen first", "[norm]") {
  const auto gloo = named("gloo"), nccl = named("nccl");
  NormGroups groups(/*world_size=*/2);
  groups.see(*gloo);
  groups.see(*nccl);
  CHECK((gloo.use_count() == 2 && nccl.use_count() == 2));
  groups.settle(groups.chosen(c10::kCUDA));
  CHECK((gloo.use_count() == 1 && nccl.use_count() == 2));
  groups.give(make_communicator(0, 2, [](at::Tensor&) {}));
  CHECK(chosen(groups) == Names("a function of the program", "a function of the program"));
  groups.clear();
  CHECK(nccl.use_count() == 1);
  CHECK(chosen(groups) == Names("none", "none"));
}

}  // namespace ddpscope::test::norm_groups_test
