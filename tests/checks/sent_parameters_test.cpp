// optim-missing-parameter of ranks that send each other what they step.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::sent_parameters_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "body.weight"},
                                      {.id = 2, .path = "fc.weight", .shape = {10, 512}},
                                      {.id = 3, .path = "fc.bias", .shape = {10}}};

CollectiveEvent sent(CollectiveKind kind, std::int64_t elements, const ListedIds& tensors) {
  return {.group_size = 2, .kind = kind, .tensors = tensors, .elements = elements};
}

/// Three steps of optimizer 1, with this call before the first, or after each.
void train_and_send(Program& program, const CollectiveEvent& call, bool at_start = false) {
  if (at_start) program.send_now(CollectiveEvent(call));
  for (int i = 0; i < 3; ++i) {
    program.backward({1, 2, 3});
    program.step(1);
    program.zero_grad(1);
    if (!at_start) program.send_now(CollectiveEvent(call));
  }
}
}  // namespace

TEST_CASE("optim-missing-parameter notes parameters that ranks send each other", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, kNet);
  Severity severity = Severity::kNote;
  SECTION("in a broadcast after the step") {
    program.optimizer(1, {1, 3});
    train_and_send(program, sent(CollectiveKind::kBroadcast, 5120, {2}));
  }
  SECTION("in a gathering of what the optimizer steps instead of them") {
    program.leaf(9, {2600});
    program.optimizer(1, {1, 9});
    train_and_send(program, sent(CollectiveKind::kAllGather, 2600, {}));
  }
  SECTION("but not before training") {
    program.optimizer(1, {1, 3});
    train_and_send(program, sent(CollectiveKind::kBroadcast, 5120, {2}), /*at_start=*/true);
    severity = Severity::kError;
  }
  SECTION("but not in a gathering of fewer elements") {
    program.leaf(9, {2600});
    program.optimizer(1, {1, 9});
    train_and_send(program, sent(CollectiveKind::kAllGather, 16, {}));
    severity = Severity::kError;
  }
  SECTION("but not in a gathering where modules hold all that is stepped") {
    program.optimizer(1, {1, 3});
    train_and_send(program, sent(CollectiveKind::kAllGather, 5120, {}));
    severity = Severity::kError;
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == severity);
}

TEST_CASE("optim-missing-parameter tells of a rank that sends what it does not step", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, kNet);
  program.optimizer(1, {1, 3});
  CollectiveEvent call = sent(CollectiveKind::kBroadcast, 5120, {2});
  call.is_root = true;
  train_and_send(program, call);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kError);
  CHECK(program.findings[0].what.ends_with("and is in no optimizer (group_omits)"));
  CHECK(program.findings[0].fixes.back().text ==
        "broadcast each from the rank whose optimizer steps it, if one does");
}

TEST_CASE("optim-missing-parameter tells to send one that others beside it are sent", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  train_and_send(program, sent(CollectiveKind::kBroadcast, 5120, {2}));
  REQUIRE(program.findings.size() == 2);
  const auto found = std::ranges::find(program.findings, Severity::kError, &Finding::severity);
  REQUIRE(found != program.findings.end());
  CHECK(found->what.ends_with(
      "gets gradients and is in no optimizer of this rank, nor sent to it (group_omits)"));
  CHECK(found->fixes.at(0).text ==
        "if another rank steps it: broadcast it after step(), as those others");
  const auto other = std::ranges::find(program.findings, Severity::kNote, &Finding::severity);
  REQUIRE(other != program.findings.end());
  CHECK(other->what.ends_with("in no optimizer of this rank (group_omits)"));
}

}  // namespace ddpscope::test::sent_parameters_test
