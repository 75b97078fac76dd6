#include "checks/cause_links.h"

#include "model/fact_keys.h"
#include "tests/support/catch.h"

namespace ddpscope::test {
namespace {
Finding threw(const std::string& text) {
  Finding finding{.id = "module-operator-failed", .step = 5};
  finding.facts = {{fact::kException, text}};
  return finding;
}
}  // namespace

TEST_CASE("what LibTorch threw follows from the check that knows its words", "[links]") {
  const Finding twice{.id = "autograd-double-backward", .step = 5};
  CHECK(explains(twice, threw("Trying to backward through the graph a second time")));
  CHECK_FALSE(explains(twice, threw("The size of tensor a (3) must match the size of tensor b")));
  const Finding labels{.id = "loss-target-range", .step = 5};
  CHECK(explains(labels, threw("Target 9 is out of bounds.")));
  CHECK(explains(labels, threw("all elements of input should be between 0 and 1")));
  const Finding earlier{.id = "loss-target-range", .step = 4};
  CHECK_FALSE(explains(earlier, threw("Target 9 is out of bounds.")));
}

TEST_CASE("NaN that a step spread explains an operator that refuses it", "[links]") {
  const auto refused = threw(GENERATE("probability tensor contains either `inf`, `nan` or element",
                                      "because the input matrix contained non-finite values."));
  Finding made{.id = GENERATE("numeric-nonfinite-forward", "clip-nonfinite-norm"),
               .severity = Severity::kError,
               .step = 4};
  CHECK(explains(made, refused));
  CHECK_FALSE(explains(made, threw("The size of tensor a (3) must match the size of tensor b")));
  made.step = 3;
  CHECK_FALSE(explains(made, refused));
  made.step = 4;
  made.severity = Severity::kNote;
  CHECK_FALSE(explains(made, refused));
}

TEST_CASE("a rank that halt_on ended failed because of the finding that is named", "[links]") {
  Finding failed{.id = "rank-first-failure", .step = 9};
  failed.facts = {{fact::kException,
                   std::string("ddpscope::HaltError \"ddpscope: halt_on: rank 0 step 4 net: error: "
                               "gradients of earlier steps [optim-stale-gradient]\"")}};
  CHECK(explains(Finding{.id = "optim-stale-gradient", .step = 4}, failed));
  CHECK_FALSE(explains(Finding{.id = "optim-empty", .step = 4}, failed));
}

TEST_CASE("gradients that are never cleared explain what overflows later", "[links]") {
  Finding stale{.id = "optim-stale-gradient", .severity = Severity::kError, .step = 4};
  Finding overflow{.id = "numeric-nonfinite-forward", .step = 15};
  CHECK_FALSE(explains(stale, overflow));
  overflow.facts = {{fact::kInputAbsmax, 3.7e29}};
  CHECK(explains(stale, overflow));
  stale.severity = Severity::kWarning;
  CHECK_FALSE(explains(stale, overflow));
}

TEST_CASE("tensors of no known model explain that they are missed once it is known", "[links]") {
  Finding unknown{.id = "module-unregistered", .step = 2, .model = "net"};
  unknown.facts = {{fact::kTensorsCount, std::int64_t{8}}, {fact::kElements, std::int64_t{63843}}};
  Finding missing{.id = "optim-missing-parameter", .step = 12, .model = "net#2"};
  missing.facts = {{fact::kParametersCount, std::int64_t{8}},
                   {fact::kElements, std::int64_t{63843}}};
  CHECK(explains(unknown, missing));
  missing.facts[1].value = std::int64_t{63842};
  CHECK_FALSE(explains(unknown, missing));
}

TEST_CASE("a load of another type explains what overflows later", "[links]") {
  Finding load{.id = "checkpoint-load", .severity = Severity::kError, .step = 4};
  load.facts = {{fact::kOldShape, std::string("[8, 8]")}, {fact::kNewShape, std::string("[8, 8]")}};
  Finding overflow{.id = "numeric-nonfinite-forward", .step = 4};
  CHECK(explains(load, overflow));
  overflow.model = "other";
  CHECK_FALSE(explains(load, overflow));
  overflow.model = load.model;
  overflow.step = 3;
  CHECK_FALSE(explains(load, overflow));
  overflow.step = 5;
  load.facts[1].value = std::string("[4, 8]");
  CHECK_FALSE(explains(load, overflow));
}

TEST_CASE("a member that was assigned explains the zeros in the registered one", "[links]") {
  Finding replaced{.id = "module-replaced"};
  Finding zeros{.id = "grad-zero-instead-of-none"};
  replaced.facts = zeros.facts = {{fact::kParameters, std::vector<FactScalar>{"head.weight"}}};
  CHECK(explains(replaced, zeros));
  zeros.facts = {{fact::kParameters, std::vector<FactScalar>{"body.weight"}}};
  CHECK_FALSE(explains(replaced, zeros));
}

TEST_CASE("what overflows first explains what overflows in a later step", "[links]") {
  Finding first{.id = "numeric-nonfinite-forward", .severity = Severity::kError, .step = 4};
  Finding later = first;
  later.step = 5;
  later.facts = {{fact::kInputAbsmax, 3.7e29}};
  CHECK_FALSE(explains(first, later));
  first.facts = {{fact::kInputAbsmax, 1.3e21}};
  CHECK(explains(first, later));
  CHECK_FALSE(explains(later, first));
  later.facts = {{fact::kInputAbsmax, 3.0}};
  CHECK_FALSE(explains(first, later));
}

}  // namespace ddpscope::test
