#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::autograd_inplace_saved_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "act.weight", .shape = {32, 256}},
                                      {.id = 2, .path = "block2.bias"},
                                      {.id = 3, .path = "norm.mean", .is_buffer = true}};

Findings found_in(Program& program) { return program.with_id("autograd-inplace-saved"); }
}  // namespace

TEST_CASE("autograd-inplace-saved names both sites, versions and the writer", "[check]") {
  LinesByStack lines;
  Program program("autograd-inplace-saved", &lines);
  program.attach(1, kNet);
  program.send_now(stale(40));
  REQUIRE(found_in(program).size() == 1);
  const Finding finding = found_in(program)[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "act");
  CHECK(finding.op == "aten::sigmoid");
  CHECK(finding.what == "saved tensor [32, 256] is at version 1, backward needs version 0");
  CHECK(finding.why ==
        "aten::add_ in block2 (train.cpp:88) wrote it after forward saved it (train.cpp:71)");
  CHECK(finding.fixes[0].text == "out of place: y = y.add(...)");
  REQUIRE(finding.sites.size() == 2);
  CHECK(finding.sites[0].role == "saved");
  CHECK(finding.sites[1].role == "changed");
  CHECK(fact_of<std::string>(finding, "writer_kind") == "operator");
  CHECK(fact_of<std::string>(finding, "saved_site") == "train.cpp:71");
  CHECK(fact_of<std::string>(finding, "writer_site") == "train.cpp:88");
  CHECK(fact_of<std::int64_t>(finding, "found_version") == 1);
  CHECK(fact_of<std::string>(finding, "saved_op") == "aten::sigmoid");
  CHECK(fact_of<std::int64_t>(finding, "writes_between_count") == 1);
}

TEST_CASE("autograd-inplace-saved tells to cut off what a cycle hands to the next", "[check]") {
  Program program("autograd-inplace-saved");
  program.attach(1, kNet);
  program.optimizer(7, {1, 2});
  StaleSavedEvent event = stale(1);
  event.writer->by.optimizer = 7;
  event.saved->cycle = 1;
  program.step(7);
  program.send_now(std::move(event));
  REQUIRE(found_in(program).size() == 1);
  REQUIRE(found_in(program)[0].fixes.size() == 1);
  CHECK(found_in(program)[0].fixes[0].text ==
        "detach() what one step hands to the next, as in h = h.detach()");
}

TEST_CASE("autograd-inplace-saved tells to run a forward again that served a step", "[check]") {
  Program program("autograd-inplace-saved");
  program.attach(1, kNet);
  program.optimizer(7, {1, 2});
  StaleSavedEvent event = stale(1);
  event.writer->by.optimizer = 7;
  event.saved->cycle = 1;
  event.after_forward = false;
  program.step(7);
  program.send_now(std::move(event));
  REQUIRE(found_in(program).size() == 1);
  CHECK(found_in(program)[0].fixes.at(0).text == "run the forward again after step()");
  CHECK(found_in(program)[0].fixes.at(1).applicability == Applicability::kNeedsDecision);
}

TEST_CASE("autograd-inplace-saved tells optimizers that step in turn to wait", "[check]") {
  Program program("autograd-inplace-saved");
  program.attach(1, kNet);
  program.optimizer(7, {1, 2});
  program.optimizer(8, {3});
  StaleSavedEvent event = stale(1);
  event.writer->by.optimizer = 7;
  event.saved->cycle = event.saved->step = 1;
  program.step(7);  // before the first step of the other the first cycle seems to be over
  program.send_now(std::move(event));
  REQUIRE(found_in(program).size() == 1);
  CHECK(found_in(program)[0].fixes[0].text == "run every backward() before any step()");
}

TEST_CASE("autograd-inplace-saved names the optimizer whose step wrote a parameter", "[check]") {
  LinesByStack lines;
  Program program("autograd-inplace-saved", &lines);
  program.attach(1, kNet);
  program.optimizer(7, {1, 2});
  StaleSavedEvent event = stale(1);
  event.writer->by.optimizer = 7;
  event.writer->op = "aten::addcdiv_";
  event.writes_since_save = 3;
  program.send_now(std::move(event));
  REQUIRE(found_in(program).size() == 1);
  const Finding finding = found_in(program)[0];
  CHECK(finding.module_path == "act");
  CHECK(finding.subject == "weight");
  CHECK(finding.why ==
        "SGD's step() (aten::addcdiv_, train.cpp:88) wrote it after forward saved it "
        "(train.cpp:71), the first of 3 writes");
  CHECK(finding.fixes[0].text == "run every backward() before any step()");
  CHECK(fact_of<std::string>(finding, "writer_kind") == "optimizer");
  CHECK(fact_of<std::string>(finding, "owner") == "act.weight");
}

TEST_CASE("autograd-inplace-saved says which level records the lines", "[check]") {
  Program program("autograd-inplace-saved");
  program.attach(1, kNet);
  StaleSavedEvent event = stale(40);
  event.saved->stack = event.writer->by.stack = 0;
  program.send_now(std::move(event));
  REQUIRE(found_in(program).size() == 1);
  CHECK(found_in(program)[0].why ==
        "aten::add_ in block2 wrote it after forward saved it; next: DDPSCOPE=level=values records "
        "the lines of both");
  CHECK(found_in(program)[0].sites.empty());
}

TEST_CASE("autograd-inplace-saved advises what the program can write", "[check]") {
  const auto first_fix = [](TensorId id, const std::string& op) {
    Program program("autograd-inplace-saved");
    program.attach(1, kNet);
    StaleSavedEvent event = stale(id);
    event.writer->op = op;
    program.send_now(std::move(event));
    return found_in(program).at(0).fixes.at(0).text;
  };
  CHECK(first_fix(40, "aten::masked_fill_") == "out of place: y = y.masked_fill(...)");
  CHECK(first_fix(40, "aten::copy_") == "out of place: y = the new value");
  CHECK(first_fix(40, "aten::zero_") == "out of place: y = torch::zeros_like(y)");
  CHECK(first_fix(40, "aten::random_") == "clone() the tensor before it is written");
  CHECK(first_fix(40, "aten::_foreach_mul_") == "clone() the tensor before it is written");
  CHECK(first_fix(1, "aten::clamp_") == "write parameters when their backward() has ended");
}

TEST_CASE("autograd-inplace-saved finds the owner of a part by its storage", "[check]") {
  Program program("autograd-inplace-saved");
  program.attach(1, kNet);
  StaleSavedEvent event = stale(40);
  event.tensor.storage = 1;
  program.send_now(std::move(event));
  REQUIRE(found_in(program).size() == 1);
  CHECK(found_in(program)[0].subject == "weight");
  CHECK(found_in(program)[0].sites.empty());  // no stacks at this level
}

TEST_CASE("autograd-inplace-saved says why the writer is not known", "[check]") {
  Program program("autograd-inplace-saved");
  program.attach(1, kNet);
  StaleSavedEvent event = stale(40);
  event.writer.reset();
  SECTION("because it came through no operator that is seen") {
    program.send_now(std::move(event));
    CHECK(found_in(program)[0].why.starts_with("what wrote it was not seen: a custom operator"));
  }
  SECTION("because it may have run before hooks stood") {
    event.saved.reset();
    program.send_now(std::move(event));
    CHECK(found_in(program)[0].why.starts_with("what wrote it was not seen: an operator before"));
  }
  SECTION("because the history is too short") {
    event.writer_evicted = true;
    program.send_now(std::move(event));
    CHECK(found_in(program)[0].why.starts_with("the write is older than"));
  }
  CHECK(found_in(program)[0].confidence == Confidence::kMedium);
  CHECK(fact_of<std::string>(found_in(program)[0], "writer_kind") == "unknown");
}

TEST_CASE("autograd-inplace-saved stays silent", "[check]") {
  Program program("autograd-inplace-saved");
  program.attach(1, kNet);
  SECTION("on buffers, which norm-buffer-overwritten reports") { program.send_now(stale(3)); }
  SECTION("on writes that the version counter does not show") {
    StaleSavedEvent event = stale(40);
    event.silent = true;
    program.send_now(std::move(event));
  }
  program.exit();
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::autograd_inplace_saved_test
