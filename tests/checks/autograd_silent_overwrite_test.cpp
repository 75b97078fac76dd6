#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::autograd_silent_overwrite_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "critic.first.weight"},
                                      {.id = 2, .path = "critic.second.weight"},
                                      {.id = 3, .path = "critic.bn.running_var", .is_buffer = true},
                                      {.id = 4, .path = "critic.scale", .is_buffer = true}};

StaleSavedEvent silent(TensorId id, OptimizerId optimizer = 0) {
  StaleSavedEvent event = stale(id);
  event.silent = true;
  event.found_version = event.saved_version;
  event.writer->by.optimizer = optimizer;
  return event;
}

void end_backward(Program& program) { program.send(BackwardEndEvent{.at = program.now()}); }
}  // namespace

TEST_CASE("autograd-silent-overwrite gathers what one step wrote into one finding", "[check]") {
  LinesByStack lines;
  Program program("autograd-silent-overwrite", &lines);
  program.attach(1, kNet);
  program.optimizer(7, {1, 2});
  program.send_now(silent(1, 7));
  program.send_now(silent(2, 7));
  program.send_now(silent(2, 7));  // saved by two nodes
  CHECK(program.findings.empty());
  end_backward(program);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "critic");
  CHECK(finding.what ==
        "the content of 2 saved tensors (16384 elements: critic.first.weight, "
        "critic.second.weight) changed between forward and backward at equal version 0");
  CHECK(finding.why.starts_with(
      "SGD's step() (aten::add_, train.cpp:88) wrote it after forward saved it (train.cpp:71)"));
  CHECK(fact_of<std::int64_t>(finding, "tensors_count") == 2);
  CHECK(fact_of<std::string>(finding, "window") == "forward to backward");
}

TEST_CASE("autograd-silent-overwrite tells the hands apart", "[check]") {
  Program program("autograd-silent-overwrite");
  program.attach(1, kNet);
  program.optimizer(7, {1});
  program.send_now(silent(1, 7));
  program.send_now(silent(4));
  end_backward(program);
  REQUIRE(program.findings.size() == 2);
  CHECK(program.findings[0].subject == "scale");
  CHECK(program.findings[1].subject == "weight");
}

TEST_CASE("autograd-silent-overwrite names the collective that wrote", "[check]") {
  LinesByStack lines;
  Program program("autograd-silent-overwrite", &lines);
  program.attach(1, kNet);
  StaleSavedEvent event = silent(4);
  event.writer->op.clear();
  event.writer->call = WritingCall{.kind = CollectiveKind::kBroadcast, .seq = 118};
  program.send_now(std::move(event));
  end_backward(program);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.why.starts_with(
      "broadcast #118 (train.cpp:88) wrote it after forward saved it (train.cpp:71); "));
  CHECK(fact_of<std::string>(finding, "writer_kind") == "collective");
  CHECK(fact_of<std::string>(finding, "writer_op") == "broadcast");
  CHECK(fact_of<std::int64_t>(finding, "collective_seq") == 118);
  CHECK(finding.fixes[0].text == "move the broadcast before the forward, or behind its backward");
}

TEST_CASE("autograd-silent-overwrite tells of a writer that nobody saw", "[check]") {
  LinesByStack lines;
  Program program("autograd-silent-overwrite", &lines);
  program.attach(1, kNet);
  StaleSavedEvent event = silent(1);
  event.writer.reset();
  program.send_now(std::move(event));
  end_backward(program);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.starts_with(
      "a kernel, a raw pointer past LibTorch or set_data() changed it after forward saved it "
      "(train.cpp:71); "));
  CHECK(fact_of<std::string>(program.findings[0], "writer_kind") == "unknown");
  CHECK(program.findings[0].confidence == Confidence::kMedium);
}

TEST_CASE("autograd-silent-overwrite names a forward that updates statistics in use", "[check]") {
  LinesByStack lines;
  Program program("autograd-silent-overwrite", &lines);
  program.attach(1, kNet);
  StaleSavedEvent event = silent(3);
  event.node = "NativeBatchNormBackward0";
  event.writer.reset();
  const bool layer_ran = GENERATE(true, false);
  program.send_now(TrainingOpEvent{.op = "aten::batch_norm", .statistics = layer_ran ? 3U : 77U});
  program.send_now(std::move(event));
  end_backward(program);
  REQUIRE(program.findings.size() == 1);
  const std::string kind = fact_of<std::string>(program.findings[0], "writer_kind");
  CHECK(kind == (layer_ran ? "operator" : "unknown"));
  CHECK(program.findings[0].why.starts_with("a forward of the layer in training mode updated it "
                                            "after forward saved it (train.cpp:71); ") ==
        layer_ran);
}

TEST_CASE("autograd-silent-overwrite reports when the program ends inside backward", "[check]") {
  Program program("autograd-silent-overwrite");
  program.attach(1, kNet);
  program.send_now(silent(1));
  program.exit();
  CHECK(program.with_id("autograd-silent-overwrite").size() == 1);
}

TEST_CASE("autograd-silent-overwrite warns where another training thread wrote", "[check]") {
  LinesByStack lines;
  Program program("autograd-silent-overwrite", &lines);
  program.attach(1, kNet);
  program.optimizer(7, {1, 2});
  program.optimizer(8, {1, 2});
  program.optimizer(9, {1, 2});
  const bool is_first_step = GENERATE(true, false);
  const auto step_of_other = [&program](OptimizerId optimizer) {
    program.thread = 2;
    program.step(optimizer);
    program.thread = 1;
  };
  program.step(8);
  step_of_other(is_first_step ? 9 : 7);
  program.send_now(silent(1, 7));
  end_backward(program);
  CHECK(program.findings.empty() == is_first_step);
  if (is_first_step) step_of_other(7);
  program.send_now(silent(2, 7));  // the same cause
  end_backward(program);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK((finding.module_path + finding.subject + finding.op).empty());
  CHECK(
      finding.why.starts_with("SGD's step() (aten::add_, train.cpp:88) on another thread wrote "
                              "it after forward saved it (train.cpp:71); "));
  CHECK(finding.fixes[0].text.find("DDPSCOPE=declare=*=intended") != std::string::npos);
  CHECK(program.judge().findings()[0].occurrences == 2);
}

TEST_CASE("autograd-silent-overwrite keeps the severity where the thread is not known", "[check]") {
  Program program("autograd-silent-overwrite");
  program.attach(1, kNet);
  program.optimizer(7, {1});
  program.optimizer(8, {1});
  program.thread = 2;
  program.step(8);
  program.thread = 1;
  program.step(7);
  program.send_now(silent(1, GENERATE(0, 7)));  // no optimizer, or that of this thread
  end_backward(program);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kError);
}

TEST_CASE("autograd-silent-overwrite believes that threads share a model on purpose", "[check]") {
  Program program("autograd-silent-overwrite");
  program.attach(1, kNet);
  program.optimizer(7, {1});
  program.optimizer(8, {1});
  auto declared = std::make_unique<DeclarationEvent>();
  declared->path_glob = GENERATE("*", "critic.*", "actor.*");
  declared->kind = "intended";
  const bool is_covered = declared->path_glob != "actor.*";
  program.send(std::move(declared));
  program.step(8);
  program.thread = 2;
  program.step(7);
  program.thread = 1;
  program.send_now(silent(1, 7));
  end_backward(program);
  CHECK(program.findings.empty() == is_covered);
}

TEST_CASE("autograd-silent-overwrite stays silent", "[check]") {
  Program program("autograd-silent-overwrite");
  program.attach(1, kNet);
  SECTION("on writes that LibTorch itself notices") { program.send_now(stale(1)); }
  SECTION("on statistics of batch norm in training mode, which backward never reads") {
    StaleSavedEvent event = silent(3);
    event.node = "NativeBatchNormBackward0";
    event.only_checked = true;
    program.send_now(std::move(event));
  }
  end_backward(program);
  program.exit();
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::autograd_silent_overwrite_test
