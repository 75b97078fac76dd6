#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::norm_buffer_overwritten_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "bn3.weight"},
                                      {.id = 3, .path = "bn3.running_mean", .is_buffer = true}};

StaleSavedEvent overwritten() {
  StaleSavedEvent event = stale(3);
  event.node = "NativeBatchNormBackward0";
  event.saved_version = 3;
  event.found_version = 4;
  event.writer->op = "aten::copy_";
  event.only_checked = true;
  return event;
}
}  // namespace

TEST_CASE("norm-buffer-overwritten names buffer, versions and both sites", "[check]") {
  LinesByStack lines;
  Program program("*", &lines);
  program.attach(1, kNet);
  program.send_now(overwritten());
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.id == "norm-buffer-overwritten");
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "bn3");
  CHECK(finding.subject == "running_mean");
  CHECK(finding.op == "aten::native_batch_norm");
  CHECK(finding.what ==
        "running_mean [32, 256] was overwritten after forward saved it: saved at version 3, now 4");
  CHECK(finding.why.starts_with(
      "aten::copy_ (train.cpp:88) wrote it after forward saved it (train.cpp:71); in training "
      "mode"));
  CHECK(fact_of<std::string>(finding, "buffer") == "running_mean");
}

TEST_CASE("norm-buffer-overwritten says that a layer in eval mode reads its buffers", "[check]") {
  Program program("norm-buffer-overwritten");
  program.attach(1, kNet);
  StaleSavedEvent event = overwritten();
  event.only_checked = false;
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.find("in eval mode backward reads") != std::string::npos);
}

TEST_CASE("norm-buffer-overwritten advises to clone a buffer that backward reads", "[check]") {
  Program program("norm-buffer-overwritten");
  program.attach(1, kNet);
  StaleSavedEvent event = overwritten();
  event.node = "MulBackward0";
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].fixes.back().text == "clone() the buffer where forward uses it");
}

TEST_CASE("norm-buffer-overwritten stays silent", "[check]") {
  Program program("norm-buffer-overwritten");
  program.attach(1, kNet);
  SECTION("on parameters and plain tensors") {
    program.send_now(stale(1));
    program.send_now(stale(40));
  }
  SECTION("on the layer's own update, which the version counter does not show") {
    StaleSavedEvent event = overwritten();
    event.silent = true;
    program.send_now(std::move(event));
  }
  program.exit();
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::norm_buffer_overwritten_test
