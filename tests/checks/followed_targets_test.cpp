#include "checks/cause_links.h"
#include "model/fact_keys.h"
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::followed_targets_test {
namespace {
const std::string kGuard = "torch::NoGradGuard";
const std::vector<TensorId> kTarget = {11, 12};

/// A model that an optimizer steps, and one of the same shapes that no optimizer holds. Both get
/// gradients, which nobody clears in the second.
struct Pair {
  explicit Pair(const std::string& checks) : program(checks) {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
    program.attach(2, {{.id = 11, .path = "a.weight"}, {.id = 12, .path = "b.weight"}});
    program.optimizer(1, {1, 2});
  }
  template <class Update>
  void train(Update&& update) {
    for (int i = 0; i < 6; ++i) {
      program.zero_grad(1);
      program.backward({1, 2, 11, 12});
      program.step(1);
      for (const TensorId id : kTarget) update(id);
    }
  }
  void write(const std::string& op, TensorId id, TensorId from) {
    program.op({.name = op, .inputs = {id, from}, .outputs = {id}, .grad_mode = false});
    program.write({id});
  }
  Program program;
};
}  // namespace

TEST_CASE("A target that follows another model is a note that says so", "[check]") {
  Pair pair("optim-stale-gradient,optim-missing-parameter");
  std::string op = "aten::add_";
  SECTION("by an average") {
    pair.train([&](TensorId id) {
      pair.program.op({.name = "aten::mul_", .inputs = {id}, .outputs = {id}, .grad_mode = false});
      pair.write(op, id, id - 10);
    });
  }
  SECTION("by lerp_") {
    op = "aten::lerp_";
    pair.train([&](TensorId id) { pair.write(op, id, id - 10); });
  }
  SECTION("by a sum that is made before") {
    pair.train([&](TensorId id) {
      pair.program.op({.name = "aten::sub", .inputs = {id - 10, id}, .outputs = {id + 40}});
      pair.program.op({.name = "aten::mul", .inputs = {id + 40}, .outputs = {id + 60}});
      pair.write(op, id, id + 60);
    });
  }
  REQUIRE(pair.program.findings.size() == 1);
  const Finding& finding = pair.program.findings[0];
  CHECK(finding.id == "optim-missing-parameter");
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.why == "the program writes them itself with " + op +
                           ", a.weight from a.weight of net: as a target, of which nobody uses the "
                           "gradients");
  CHECK(finding.fixes[0].text == "run the forward of the target under " + kGuard);
}

TEST_CASE("A target that is copied is none whose gradients are stale", "[check]") {
  Pair pair("optim-stale-gradient,optim-missing-parameter");
  pair.train([&](TensorId id) { pair.write("aten::copy_", id, id - 10); });
  CHECK(pair.program.findings.empty());
}

TEST_CASE("Updates by gradients follow no other model", "[check]") {
  Pair pair("optim-stale-gradient");
  SECTION("without a second parameter") {
    pair.train([&](TensorId id) { pair.write("aten::sub_", id, id + 20); });
  }
  SECTION("also where another one holds them near it") {
    pair.train([&](TensorId id) {
      pair.program.op({.name = "aten::sub", .inputs = {id, id - 10}, .outputs = {id + 40}});
      pair.program.op({.name = "aten::add", .inputs = {id + 20, id + 40}, .outputs = {id + 60}});
      pair.write("aten::sub_", id, id + 60);
    });
  }
  SECTION("nor where gradients lie in memory that another one left") {
    pair.program.attach(3, {{.id = 7, .path = "c.weight"}});
    for (const TensorId id : kTarget) {
      pair.program.leaf_in_storage(id + 20, 4);
      pair.program.gradients_in[id] = 7;
    }
    pair.train([&](TensorId id) { pair.write("aten::sub_", id, id + 20); });
  }
  SECTION("nor where numbers lie in memory that another one left") {
    pair.program.attach(3, {{.id = 7, .path = "c.weight"}});
    pair.program.send(std::make_unique<TensorEvent>(
        TensorEvent{pair.program.now(),
                    {.id = 30, .elements = 1, .storage = 7, .floating = true, .alone = true}}));
    pair.train([&](TensorId id) {
      pair.program.op({.name = "aten::mul", .inputs = {id + 20, 30}, .outputs = {id + 40}});
      pair.write("aten::sub_", id, id + 40);
    });
  }
  SECTION("nor where they begin anew from their own values") {
    pair.train([&](TensorId id) {
      pair.program.op({.name = "aten::clone", .inputs = {id}, .outputs = {id + 40}});
      pair.write("aten::copy_", id, id + 40);
    });
  }
  REQUIRE(pair.program.findings.size() == 1);
  CHECK(pair.program.findings[0].severity == Severity::kError);
}

TEST_CASE("A model that nobody trains may be a target, which no fix is to train", "[check]") {
  Pair pair("optim-missing-parameter");
  pair.train([](TensorId) {});
  REQUIRE(pair.program.findings.size() == 1);
  const Finding& finding = pair.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  for (const Fix& fix : finding.fixes) {
    CHECK(fix.applicability == Applicability::kNeedsDecision);
  }
  CHECK(finding.fixes.front().text ==
        "if it is a target that follows net: run its forward under " + kGuard);
}

TEST_CASE("A model that is written unseen may be a target, whose gradients nobody clears",
          "[check]") {
  Pair pair("optim-stale-gradient,optim-missing-parameter");
  SECTION("which no optimizer holds") {}
  SECTION("which one holds that never steps") { pair.program.optimizer(2, {11, 12}); }
  for (int i = 0; i < 12; ++i) {
    pair.train([&](TensorId id) { pair.program.write({id}); });
  }
  pair.program.exit();
  REQUIRE(pair.program.findings.size() == 1);
  const Finding& finding = pair.program.findings[0];
  CHECK(finding.id == "optim-missing-parameter");
  CHECK(finding.severity <= Severity::kWarning);
  CHECK(finding.fixes.front().text ==
        "if it is a target that follows net: run its forward under " + kGuard);
}

TEST_CASE("A target of which a first copy was seen is a note", "[check]") {
  Pair pair("optim-missing-parameter");
  for (const TensorId id : kTarget) pair.write("aten::copy_", id, id - 10);
  pair.train([](TensorId) {});
  REQUIRE(pair.program.findings.size() == 1);
  CHECK(pair.program.findings[0].severity == Severity::kNote);
}

TEST_CASE("What no optimizer holds explains that nothing clears its gradients", "[links]") {
  const auto told = [](const char* id, const char* path) {
    Finding finding{.id = id, .severity = Severity::kError};
    finding.facts = {{fact::kParameters, std::vector<FactScalar>{std::string(path)}}};
    return finding;
  };
  const Finding stale = told("optim-stale-gradient", "a.weight");
  CHECK(explains(told("optim-missing-parameter", "a.weight"), stale));
  CHECK_FALSE(explains(told("optim-missing-parameter", "b.weight"), stale));
  Finding note = told("optim-missing-parameter", "a.weight");
  note.severity = Severity::kNote;
  CHECK_FALSE(explains(note, stale));
  Finding of_optimizer = stale;
  of_optimizer.facts.push_back({fact::kOptimizers, std::vector<FactScalar>{std::string("SGD")}});
  CHECK_FALSE(explains(told("optim-missing-parameter", "a.weight"), of_optimizer));
}

TEST_CASE("A model beside a trained one that nobody knows may be a target", "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
  program.optimizer(1, {1, 2});
  program.leaf(11);
  program.leaf(12);
  TensorId entry = 20;
  bool is_target = true;
  SECTION("of the same data") {}
  SECTION("but not behind it") {
    entry = 22;
    is_target = false;
  }
  SECTION("but not of other shapes") {
    program.leaf(12, {5});
    is_target = false;
  }
  for (int i = 0; i < 3; ++i) {
    program.op({.name = "aten::addmm", .inputs = {20, 1}, .outputs = {21}});
    program.op({.name = "aten::addmm", .inputs = {21, 2}, .outputs = {22}});
    program.op({.name = "aten::addmm", .inputs = {entry, 11}, .outputs = {23}});
    program.op({.name = "aten::addmm", .inputs = {23, 12}, .outputs = {24}});
    program.op({.name = "aten::mse_loss", .inputs = {22, 24}, .outputs = {25}});
    LooseModuleEvent layer{.type = "LinearImpl", .is_shared = true};
    layer.tensors = {11, 12};
    program.send_now(std::move(layer));
    program.backward({1, 2, 11, 12});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == (is_target ? Severity::kWarning : Severity::kError));
  CHECK((finding.fixes[0].text == "a teacher or a target: run its forward under " + kGuard) ==
        is_target);
}

}  // namespace ddpscope::test::followed_targets_test
