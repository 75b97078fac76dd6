#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::module_trainable_changed_test {
namespace {
constexpr char kId[] = "module-trainable-changed";

/// A trunk and a head, of which the trunk may be frozen, on one rank of some.
struct Loop {
  explicit Loop(bool trunk_trains, std::int64_t world_size = 1, std::string checks = kId)
      : program(std::move(checks), nullptr, world_size), trunk(trunk_trains) {
    look(/*attached=*/true);
    program.create(1);
    program.members(1, {members}, frozen());
  }

  std::vector<Registered> net() const {
    return {{.id = 1, .path = "head.weight"},
            {.id = 2, .path = "trunk.weight", .requires_grad = trunk},
            {.id = 3, .path = "trunk.bias", .requires_grad = trunk},
            {.id = 4, .path = "mean", .requires_grad = false, .is_buffer = true}};
  }
  std::set<TensorId> frozen() const {
    return trunk ? std::set<TensorId>() : std::set<TensorId>{2, 3};
  }

  // As the tracker does: when a step has ended, and only if something changed.
  void look(bool attached = false) {
    if (told == trunk && !attached) return;
    told = trunk;
    program.attach(1, net(), attached);
  }

  void step() {
    program.members(1, {members}, frozen());
    program.backward(trunk ? std::vector<TensorId>{1, 2, 3} : std::vector<TensorId>{1});
    if (!averaged.empty()) {
      program.send_now(CollectiveEvent{.group_size = 2,
                                       .reduce = ReduceKind::kSum,
                                       .gradients_of = averaged,
                                       .averages = true,
                                       .list = std::ssize(averaged),
                                       .elements = elements});
    }
    program.step(1);
    program.zero_grad(1);
    look();
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }
  Findings found() const { return program.with_id(kId); }

  /// The trunk is no leaf any more: an operator wrote into it.
  void become_results() {
    for (const TensorId id : {2, 3}) {
      program.send(std::make_unique<TensorEvent>(TensorEvent{program.now(),
                                                             {.id = id,
                                                              .shape = {4},
                                                              .elements = 4,
                                                              .requires_grad = true,
                                                              .is_leaf = false,
                                                              .floating = true}}));
    }
  }

  Program program;
  bool trunk;
  bool told = false;
  std::vector<TensorId> members = {1, 2, 3};
  ListedIds averaged;
  std::int64_t elements = 4;
};

std::int64_t number(const Finding& finding, const char* key) {
  return fact_of<std::int64_t>(finding, key);
}
}  // namespace

TEST_CASE("module-trainable-changed tells what an update with grad mode on made a result",
          "[check]") {
  Loop loop(/*trunk_trains=*/false);
  loop.members = {1};
  loop.steps(2);
  loop.trunk = true;
  loop.look();
  loop.become_results();
  loop.steps(3);
  REQUIRE(loop.found().size() == 1);
  const Finding finding = loop.found()[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what.starts_with("2 parameters became results with a graph in step "));
  REQUIRE(finding.fixes.size() == 1);
  CHECK(finding.fixes[0].text == "run what writes them under torch::NoGradGuard");
}

TEST_CASE("module-trainable-changed reports what nobody averages", "[check]") {
  Loop loop(false, 2);
  loop.averaged = {1};
  loop.steps(2);
  loop.trunk = true;
  loop.steps(2);
  CHECK(loop.found().empty());
  loop.steps(4);
  REQUIRE(loop.found().size() == 1);
  const Finding finding = loop.found()[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "trunk");
  CHECK(finding.step == 3);
  CHECK(finding.what == "2 parameters became trainable in step 3; 2 in no collective");
  CHECK(finding.why == "averaging was set up in step 1 for 1 parameter");
  CHECK(number(finding, "turned_on_count") == 2);
  CHECK(number(finding, "turned_off_count") == 0);
  CHECK(number(finding, "at_step") == 3);
  CHECK(number(finding, "not_averaged_count") == 2);
  CHECK(number(finding, "not_optimized_count") == 0);
}

TEST_CASE("module-trainable-changed does not take calls for less than they may hold", "[check]") {
  Loop loop(false, 2);
  loop.averaged = {1, 0};
  loop.elements = GENERATE(3, 4);
  loop.steps(2);
  loop.trunk = true;
  loop.steps(6);
  REQUIRE(loop.found().size() == 1);
  const bool fits = loop.elements == 4;
  CHECK(loop.found()[0].severity == (fits ? Severity::kNote : Severity::kError));
  CHECK(loop.found()[0].what == std::string("2 parameters became trainable in step 3; ") +
                                    (fits ? "nothing leaves them out" : "2 in no collective"));
  CHECK((loop.found()[0].why.find("step follows") != std::string::npos) == fits);
}

TEST_CASE("module-trainable-changed reports what full buffers have no room for", "[check]") {
  Loop loop(false, 2);
  loop.averaged = {0};
  loop.steps(2);
  loop.trunk = true;
  loop.steps(6);
  REQUIRE(loop.found().size() == 1);
  CHECK(loop.found()[0].severity == Severity::kError);
  CHECK(number(loop.found()[0], "not_averaged_count") == 2);
  CHECK(loop.found()[0].why == "averaging was set up in step 1 for 4 elements in buffers");
}

TEST_CASE("module-trainable-changed accepts buffers that may hold what is new", "[check]") {
  Loop loop(false, 2);
  loop.averaged = {0};
  std::int64_t later = 12;
  SECTION("as they have grown") {}
  SECTION("as they had room from the first step") { loop.elements = 12; }
  SECTION("as they are compressed") { loop.elements = later = 1; }
  loop.steps(2);
  loop.trunk = true;
  loop.elements = later;
  loop.steps(6);
  REQUIRE(loop.found().size() == 1);
  CHECK(loop.found()[0].severity == Severity::kNote);
}

TEST_CASE("module-trainable-changed warns of what is in no optimizer", "[check]") {
  Loop loop(false, 1, "module-trainable-changed,optim-missing-parameter");
  loop.members = {1};
  loop.program.members(1, {{1}});
  loop.steps(3);
  loop.trunk = true;
  loop.steps(6);
  REQUIRE(loop.found().size() == 1);
  CHECK(loop.found()[0].severity == Severity::kWarning);
  CHECK(loop.found()[0].what == "2 parameters became trainable in step 4; 2 in no optimizer");
  CHECK(loop.found()[0].why ==
        "what was set up for the parameters of the first step does not follow");
  const Findings missing = loop.program.judge().findings();
  const auto effect = std::ranges::find(missing, "optim-missing-parameter", &Finding::id);
  REQUIRE(effect != missing.end());
  CHECK(effect->caused_by == loop.found()[0].fingerprint);
}

TEST_CASE("module-trainable-changed notes what its optimizer steps", "[check]") {
  Loop loop(false);
  loop.steps(3);
  loop.trunk = true;
  loop.steps(6);
  REQUIRE(loop.found().size() == 1);
  CHECK(loop.found()[0].severity == Severity::kNote);
}

TEST_CASE("module-trainable-changed warns of frozen parameters that are still averaged",
          "[check]") {
  Loop loop(true, 2);
  loop.averaged = {1, 2, 3};
  loop.steps(3);
  loop.trunk = false;
  loop.steps(6);
  REQUIRE(loop.found().size() == 1);
  CHECK(loop.found()[0].severity == Severity::kWarning);
  CHECK(loop.found()[0].what == "2 parameters became frozen in step 4; 2 still averaged");
  CHECK(number(loop.found()[0], "turned_off_count") == 2);
}

TEST_CASE("module-trainable-changed notes frozen parameters of no optimizer", "[check]") {
  Loop loop(true);
  loop.members = {1};
  loop.program.members(1, {{1}});
  loop.steps(3);
  loop.trunk = false;
  loop.steps(6);
  REQUIRE(loop.found().size() == 1);
  CHECK(loop.found()[0].severity == Severity::kNote);
}

TEST_CASE("module-trainable-changed tells each change", "[check]") {
  Loop loop(false);
  loop.members = {1};
  loop.program.members(1, {{1}});
  loop.steps(3);
  loop.trunk = true;
  loop.steps(5);
  loop.trunk = false;
  loop.steps(5);
  CHECK(loop.found().size() == 1);
  CHECK(loop.program.judge().findings().front().occurrences == 2);
}

TEST_CASE("module-trainable-changed stays silent", "[check]") {
  Loop loop(false);
  SECTION("on a change before the first step has ended") { loop.trunk = true; }
  SECTION("on such a change of what is in no optimizer") {
    loop.members = {1};
    loop.program.members(1, {{1}});
    loop.trunk = true;
  }
  SECTION("on an optimizer that is built after it") {
    loop.steps(3);
    loop.trunk = true;
    loop.step();
    loop.program.optimizer(2, {2, 3});
  }
  SECTION("on an optimizer that is given what became trainable") {
    loop.members = {1};
    loop.steps(3);
    loop.trunk = true;
    loop.members = {1, 2, 3};
  }
  SECTION("on a model that is attached again after it") {
    loop.steps(3);
    loop.trunk = true;
    loop.step();
    loop.look(/*attached=*/true);
  }
  SECTION("on what the program declares external") {
    loop.program.declare("trunk.*", "external");
    loop.steps(3);
    loop.trunk = true;
  }
  loop.steps(6);
  CHECK(loop.found().empty());
}

TEST_CASE("module-trainable-changed stays silent on what turns within each cycle", "[check]") {
  Loop loop(true);
  loop.program.optimizer(2, {2, 3});
  for (int i = 0; i < 8; ++i) {
    loop.trunk = true;
    loop.program.backward({2, 3});
    loop.program.step(2);
    loop.look();
    loop.trunk = false;
    loop.step();
  }
  CHECK(loop.found().empty());
}

TEST_CASE("module-trainable-changed stays silent on frozen parameters in an optimizer", "[check]") {
  Loop loop(true);
  loop.steps(3);
  loop.trunk = false;
  loop.steps(6);
  CHECK(loop.found().empty());
}

TEST_CASE("module-trainable-changed begins its windows anew after lost events", "[check]") {
  Loop loop(false);
  loop.steps(3);
  loop.trunk = true;
  loop.steps(2);
  for (int i = 0; i < 6; ++i) {
    loop.program.drop_events();
    loop.step();
  }
  CHECK(loop.found().empty());
  loop.step();
  CHECK(loop.found().size() == 1);
}

}  // namespace ddpscope::test::module_trainable_changed_test
