#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::checkpoint_load_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "conv.weight", .shape = {64, 3}},
                                      {.id = 2, .path = "conv.bias", .shape = {64}},
                                      {.id = 3, .path = "head.weight", .shape = {1000, 64}}};

const Registered& registered(TensorId id) { return kNet[id - 1]; }

void read(Program& program, TensorId id, bool changed = true) {
  ArchiveTensorEvent event{.key = registered(id).path, .tensor = id, .changed = changed};
  event.old_shape = event.now.shape = registered(id).shape;
  event.old_dtype = event.now.dtype = "float32";
  program.send_now(event);
}

void miss(Program& program, TensorId id) {
  program.send_now(ArchiveTensorEvent{
      .access = ArchiveAccess::kMissing, .key = registered(id).path, .tensor = id});
}

void write(Program& program, const std::vector<Registered>& tensors) {
  for (const Registered& tensor : tensors) {
    program.send_now(ArchiveTensorEvent{
        .access = ArchiveAccess::kWritten, .key = tensor.path, .tensor = tensor.id});
  }
}
}  // namespace

TEST_CASE("checkpoint-load warns of a load that finds no name of the model", "[check]") {
  Program program("checkpoint-load");
  program.attach(1, kNet);
  for (const TensorId id : {1, 2, 3}) miss(program, id);
  CHECK(program.findings.empty());
  program.backward({1, 2, 3});
  program.backward({1, 2, 3});
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(cause_of(finding) == "unchanged");
  CHECK(finding.what == "load changed 0 of 3 tensors (unchanged)");
  CHECK(finding.why ==
        "the archive does not hold 3 names that were asked for, first \"conv.weight\"; largest "
        "unchanged [1000, 64], [64, 3], [64]");
}

TEST_CASE("checkpoint-load knows a tensor by the name that was asked for", "[check]") {
  Program program("checkpoint-load");
  program.attach(1, kNet);
  const auto ask = [&](const std::string& key, ArchiveAccess access, TensorId tensor = 0) {
    program.send_now(ArchiveTensorEvent{.access = access, .key = key, .tensor = tensor});
  };
  for (const Registered& tensor : kNet) ask(tensor.path, ArchiveAccess::kMissing);
  SECTION("where the archive holds none of them") {
    program.backward({1, 2, 3});
    REQUIRE(program.findings.size() == 1);
    CHECK(cause_of(program.findings[0]) == "unchanged");
    CHECK(program.findings[0].what == "load changed 0 of 3 tensors (unchanged)");
  }
  SECTION("but not where another archive holds them") {
    program.send_now(ArchiveTensorEvent{
        .archive = 1, .access = ArchiveAccess::kRead, .key = "head.weight", .tensor = 3});
    program.backward({1, 2, 3});
    CHECK(std::ranges::none_of(program.findings, [](const Finding& finding) {
      return finding.severity == Severity::kWarning;
    }));
  }
  SECTION("but not where the program found other names in it") {
    ask("module.conv.weight", ArchiveAccess::kRead, 40);
    ask("module.conv.bias", ArchiveAccess::kRead, 41);
    program.backward({1, 2, 3});
    CHECK(program.findings.empty());
  }
  SECTION("also where it only looked whether they have a prefix") {
    ask("module.conv.weight", ArchiveAccess::kRead, 40);
    program.backward({1, 2, 3});
    REQUIRE(program.findings.size() == 1);
    CHECK(program.findings[0].severity == Severity::kWarning);
    CHECK(program.findings[0].what == "load changed 0 of 3 tensors (unchanged)");
  }
  SECTION("but not where it read one by its own name, and copies it") {
    ask("conv.bias", ArchiveAccess::kRead, 40);
    program.backward({1, 2, 3});
    CHECK(program.findings.empty());
  }
}

TEST_CASE("checkpoint-load takes one other name for what was loaded where one is missing",
          "[check]") {
  Program program("checkpoint-load");
  program.attach(1, {kNet[2]});
  for (const std::string key : {"head.weight", "epoch"}) {
    program.send_now(ArchiveTensorEvent{.access = ArchiveAccess::kMissing, .key = key});
  }
  program.send_now(ArchiveTensorEvent{.key = "module.head.weight", .tensor = 40});
  program.backward({3});
  CHECK(program.findings.empty());
}

TEST_CASE("checkpoint-load knows a module and a name without dots as well", "[check]") {
  Program program("checkpoint-load");
  program.attach(1, kNet);
  const bool is_known = GENERATE(true, false);
  std::vector<std::string> keys = {"epoch", "ema"};
  if (is_known)
    keys = GENERATE(std::vector<std::string>{"conv", "head"},
                    std::vector<std::string>{"conv_weight", "head_weight"});
  for (const std::string& key : keys) {
    program.send_now(ArchiveTensorEvent{.access = ArchiveAccess::kMissing, .key = key});
  }
  program.backward({1, 2, 3});
  REQUIRE(program.findings.size() == (is_known ? 1 : 0));
  if (!is_known) return;
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(program.findings[0].what == "load changed 0 of 3 tensors (unchanged)");
}

TEST_CASE("checkpoint-load waits for the end of a load that runs operators", "[check]") {
  Program program("checkpoint-load");
  program.attach(1, kNet);
  miss(program, 1);
  program.op({.name = "aten::copy_", .inputs = {1}, .grad_mode = false});
  CHECK(program.findings.empty());
  miss(program, 2);
  miss(program, 3);
  program.op({.name = "aten::conv2d", .inputs = {1}});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "load changed 0 of 3 tensors (unchanged)");
}

TEST_CASE("checkpoint-load reports tensors whose form the file changed", "[check]") {
  Program program("checkpoint-load");
  program.attach(1, kNet);
  read(program, 1);
  read(program, 2);
  ArchiveTensorEvent event{.key = "head.weight", .tensor = 3, .changed = true};
  event.old_shape = {1000, 64};
  event.old_dtype = event.now.dtype = "float32";
  event.now.shape = {10, 64};
  const bool other_dtype = GENERATE(false, true);
  if (other_dtype) event.now.shape = event.old_shape;
  if (other_dtype) event.now.dtype = "float16";
  program.send_now(event);
  program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "reshaped");
  CHECK(finding.module_path == "head");
  CHECK(finding.subject == "weight");
  CHECK(finding.what == (other_dtype ? "load read 1 tensor of another type: head.weight is float16 "
                                       "in the file, float32 in the model (reshaped)"
                                     : "load changed the form of 1 tensor: head.weight is [10, 64] "
                                       "float32 now, was [1000, 64] "
                                       "float32 (reshaped)"));
}

TEST_CASE("checkpoint-load notes a load that changes fewer than half", "[check]") {
  Program program("checkpoint-load");
  program.attach(1, kNet);
  read(program, 2);
  miss(program, 1);
  miss(program, 3);
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
  CHECK(cause_of(program.findings[0]) == "partial");
  CHECK(program.findings[0].what == "load changed 1 of 3 tensors (partial)");
}

TEST_CASE("checkpoint-load notes a second load of equal weights", "[check]") {
  Program program("checkpoint-load");
  program.attach(1, kNet);
  for (const TensorId id : {1, 2, 3}) read(program, id);
  program.backward({1, 2, 3});
  CHECK(program.findings.empty());
  for (const TensorId id : {1, 2, 3}) read(program, id, /*changed=*/false);
  program.backward({1, 2, 3});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
}

TEST_CASE("checkpoint-load reports a file that lacks what the loss uses", "[check]") {
  Program program("checkpoint-load,module-unregistered");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  program.leaf(9);
  for (int i = 0; i < 2; ++i) {
    program.backward({1, 2, 3, 9});
    program.step(1);
  }
  write(program, kNet);
  program.exit();
  const Findings findings = program.judge().findings();
  REQUIRE(findings.size() == 2);
  CHECK(cause_of(findings[1]) == "incomplete");
  CHECK(findings[1].severity == Severity::kError);
  CHECK(findings[1].caused_by == findings[0].fingerprint);
}

TEST_CASE("checkpoint-load reports names that cannot be loaded", "[check]") {
  Program program("checkpoint-load");
  const std::vector<Registered> net = {{.id = 1, .path = "in.weight"},
                                       {.id = 2, .path = "input.weight"}};
  program.attach(1, net);
  write(program, net);
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kError);
  CHECK(cause_of(program.findings[0]) == "unreadable_name");
  CHECK(program.findings[0].module_path == "in");
}

TEST_CASE("checkpoint-load collapses names that cannot be loaded", "[check]") {
  Program program("checkpoint-load");
  std::vector<Registered> net = {{.id = 1, .path = "body.in.weight"},
                                 {.id = 2, .path = "body.in.bias"},
                                 {.id = 3, .path = "body.out.weight"}};
  const bool many = GENERATE(false, true);
  if (many) {
    net.push_back({.id = 4, .path = "body.is.weight"});
    net.push_back({.id = 5, .path = "body.for.weight"});
    net.push_back({.id = 6, .path = "body.with.weight"});
  }
  program.attach(1, net);
  write(program, net);
  program.exit();
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.module_path == (many ? "body" : "body.in"));
  CHECK(finding.what.starts_with(many ? "saved under \"body.in.weight\" and 4 such names: "
                                      : "saved under \"body.in.weight\" and 1 such name: "));
  CHECK(finding.what.find(many ? "\"is\"" : "\"in\" is a word") != std::string::npos);
}

TEST_CASE("checkpoint-load stays silent", "[check]") {
  Program program("checkpoint-load");
  program.attach(1, kNet);
  SECTION("on a load of the whole model") {
    for (const TensorId id : {1, 2, 3}) read(program, id);
  }
  SECTION("on a load of one module") {
    read(program, 1);
    read(program, 2);
  }
  SECTION("on a partial load that is declared") {
    program.declare("*", "intended");
    read(program, 2);
    miss(program, 1);
    miss(program, 3);
  }
  SECTION("on data, plain tensors and a model that is not attached") {
    program.send_now(ArchiveTensorEvent{.key = "images", .tensor = 70, .changed = true});
    program.send_now(
        ArchiveTensorEvent{.access = ArchiveAccess::kMissing, .key = "labels", .tensor = 71});
  }
  SECTION("on a save of the whole model") { write(program, kNet); }
  SECTION("on a save of a part beside unregistered tensors") {
    program.leaf(9);
    for (int i = 0; i < 2; ++i) program.backward({1, 9});
    write(program, {kNet[0]});
  }
  program.backward({1, 2, 3});
  program.exit();
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::checkpoint_load_test
