#include <limits>

#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::loss_target_range_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "head.weight"}};

OutOfRangeEvent labels_from_one() {
  return {.op = "aten::nll_loss_nd",
          .module = 1001,
          .argument = "target",
          .tensor = {.id = 9, .shape = {32}, .elements = 32},
          .judged_count = 32,
          .offenders_count = 3,
          .first_index = 7,
          .minimum = 1,
          .maximum = 4,
          .allowed_max = 3,
          .ignore_index = -100};
}

Finding found(const OutOfRangeEvent& event) {
  Program program("loss-target-range");
  program.attach(1, kNet);
  program.send_now(event);
  REQUIRE(program.findings.size() == 1);
  return program.findings[0];
}
}  // namespace

TEST_CASE("loss-target-range tells labels that run from one", "[check]") {
  const Finding finding = found(labels_from_one());
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.model == "net");
  CHECK(finding.module_path == "head");
  CHECK(finding.op == "aten::nll_loss_nd");
  CHECK(finding.what == "3 of 32 targets are outside [0, 3]: maximum 4, first at index 7");
  CHECK(finding.why == "the head has 4 classes, the labels run 1..4");
  REQUIRE(finding.fixes.size() == 3);
  CHECK(finding.fixes[0].text == "subtract 1 from the labels");
  CHECK(finding.fixes[1].text == "set the number of classes to 5");
  CHECK(finding.fixes[2].text == "give the filler value as ignore_index, which is -100");
  CHECK(fact_of<std::string>(finding, "op_argument") == "target");
  CHECK(fact_of<std::int64_t>(finding, "minimum") == 1);
  CHECK(fact_of<std::int64_t>(finding, "maximum") == 4);
  CHECK(fact_of<std::int64_t>(finding, "allowed_min") == 0);
  CHECK(fact_of<std::int64_t>(finding, "allowed_max") == 3);
  CHECK(fact_of<std::int64_t>(finding, "offenders_count") == 3);
  CHECK(fact_of<std::int64_t>(finding, "first_index") == 7);
  CHECK(fact_of<std::int64_t>(finding, "nan_count") == 0);
  CHECK(fact_of<std::int64_t>(finding, "ignore_index") == -100);
}

TEST_CASE("loss-target-range tells a filler value", "[check]") {
  OutOfRangeEvent event = labels_from_one();
  event.minimum = -1;
  event.maximum = 3;
  event.offenders_count = 1;
  const Finding finding = found(event);
  CHECK(finding.what == "1 of 32 targets is outside [0, 3]: minimum -1, first at index 7");
  REQUIRE(finding.fixes.size() == 1);
  CHECK(finding.fixes[0].applicability == Applicability::kLikely);
}

TEST_CASE("loss-target-range tells logits from NaN", "[check]") {
  OutOfRangeEvent event = {.op = "aten::binary_cross_entropy",
                           .argument = "input",
                           .tensor = {.id = 9, .shape = {8}, .elements = 8, .floating = true},
                           .judged_count = 8,
                           .offenders_count = 2,
                           .minimum = 0.5,
                           .maximum = 1.7,
                           .allowed_max = 1};
  SECTION("logits") {
    const Finding finding = found(event);
    CHECK(finding.model == "net");
    CHECK(finding.what == "2 of 8 inputs are outside [0, 1]: maximum 1.7, 0 NaN, first at index 0");
    CHECK(finding.fixes[0].text.starts_with("binary_cross_entropy_with_logits"));
    CHECK(fact_of<double>(finding, "maximum") == 1.7);
  }
  SECTION("a probability that rounding put above 1") {
    event.maximum = 1 + 0x1p-23;
    CHECK(found(event).what.find("maximum 1.0000001192092896,") != std::string::npos);
  }
  SECTION("NaN") {
    event.nan_count = 2;
    event.maximum = 0.9;
    const Finding finding = found(event);
    CHECK(finding.what == "2 of 8 inputs are outside [0, 1]: 2 NaN, first at index 0");
    CHECK(finding.why == "NaN is inside of no range");
    REQUIRE(finding.fixes.size() == 1);
  }
  SECTION("targets") {
    event.argument = "target";
    CHECK(found(event).fixes[0].text == "targets of 0 to 1");
  }
}

TEST_CASE("loss-target-range warns of targets whose loss falls without end", "[check]") {
  OutOfRangeEvent event = {.op = "aten::binary_cross_entropy_with_logits",
                           .argument = "target",
                           .tensor = {.id = 9, .shape = {8}, .elements = 8, .floating = true},
                           .judged_count = 8,
                           .offenders_count = 4,
                           .minimum = -1,
                           .maximum = 1,
                           .allowed_max = 1};
  std::string fix = "map labels of -1 and 1 to 0 and 1: (target + 1) / 2";
  SECTION("of two signs") {}
  SECTION("of a mask of bytes") {
    event.minimum = 0;
    event.maximum = 255;
    fix = "divide masks of 0 to 255 by 255";
  }
  SECTION("of several classes") {
    event.minimum = 0;
    event.maximum = 3;
    fix = "cross_entropy and one output for each class, where targets are classes";
  }
  SECTION("that are trained, as logits in their place") {
    event.minimum = -3.5;
    event.tensor.requires_grad = true;
    fix = "the logits first and the targets second, where they are swapped";
  }
  SECTION("of any numbers") {
    event.minimum = 0.5;
    event.maximum = 1.7;
    fix = "targets of 0 to 1";
  }
  const Finding finding = found(event);
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.why.ends_with("LibTorch takes them, and their loss falls without end"));
  CHECK(finding.fixes[0].text == fix);
}

TEST_CASE("loss-target-range tells probabilities as the input of a divergence", "[check]") {
  OutOfRangeEvent event = labels_from_one();
  event.op = "aten::kl_div";
  event.argument = "input";
  event.tensor.floating = true;
  event.minimum = 0.125;
  event.maximum = 0.75;
  event.allowed_min = std::numeric_limits<double>::lowest();
  event.allowed_max = 0;
  const Finding finding = found(event);
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what == "its input lies in [0.125, 0.75]: no logarithms of probabilities");
  CHECK(find_fact(finding, "allowed_min") == nullptr);
  CHECK(fact_of<double>(finding, "allowed_max") == 0);
}

TEST_CASE("loss-target-range tells logarithms from logits in a divergence", "[check]") {
  OutOfRangeEvent event = labels_from_one();
  event.op = "aten::kl_div";
  event.tensor.floating = true;
  event.minimum = -3;
  event.maximum = GENERATE(-0.25, 2.0);
  event.allowed_max.reset();
  const Finding finding = found(event);
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what.starts_with("3 of 32 targets are outside [0, ...]: minimum -3, 0 NaN"));
  REQUIRE(finding.fixes.size() == 2);
  CHECK(finding.fixes[0].text.starts_with("log_target(true)") == (event.maximum < 0));
}

TEST_CASE("loss-target-range tells what an index goes into", "[check]") {
  OutOfRangeEvent event = labels_from_one();
  event.argument = "index";
  event.ignore_index = {};
  SECTION("the rows of a table") {
    event.op = "aten::embedding";
    const Finding finding = found(event);
    CHECK(finding.what.starts_with("3 of 32 indices are outside [0, 3]"));
    CHECK(finding.why == "the table has 4 rows, the indices run 1..4");
    CHECK(finding.fixes[0].text == "give the table 5 rows");
  }
  SECTION("a dimension") {
    event.op = "aten::gather";
    const Finding finding = found(event);
    CHECK(finding.why == "the dimension has 4 elements, the indices run 1..4");
    CHECK(finding.fixes[0].text == "compute the indices for this dimension");
  }
  SECTION("a dimension from its end") {
    event.op = "aten::gather";
    event.minimum = -1;
    event.maximum = 2;
    CHECK(found(event).fixes[0].text == "no negative values: they do not wrap");
  }
  SECTION("classes") {
    event.op = "aten::one_hot";
    CHECK(found(event).fixes[0].text == "set num_classes to 5");
  }
  SECTION("classes without a number of them") {
    event.op = "aten::one_hot";
    event.minimum = -1;
    event.allowed_max = {};
    CHECK(found(event).what.find("outside [0, ...]: minimum -1") != std::string::npos);
  }
}

TEST_CASE("loss-target-range tells every digit of an index in a large table", "[check]") {
  OutOfRangeEvent event = labels_from_one();
  event.op = "aten::embedding";
  event.argument = "index";
  event.ignore_index = {};
  event.allowed_max = 1499999;
  event.maximum = 1500000;
  const Finding finding = found(event);
  CHECK(finding.what ==
        "3 of 32 indices are outside [0, 1499999]: maximum 1500000, first at index 7");
  CHECK(finding.why == "the table has 1500000 rows, the indices run 1..1500000");
  CHECK(finding.fixes[0].text == "give the table 1500001 rows");
}

TEST_CASE("loss-target-range explains the operator that then threw", "[check]") {
  Program program("loss-target-range,module-operator-failed");
  program.attach(1, kNet);
  program.send_now(labels_from_one());
  program.send_now(OperatorFailedEvent{
      .op = "aten::nll_loss_nd", .message = "Target 4 is out of bounds.", .module = 1001});
  program.exit();
  REQUIRE(program.with_id("module-operator-failed").size() == 1);
  CHECK(program.with_id("module-operator-failed")[0].caused_by ==
        program.with_id("loss-target-range")[0].fingerprint);
}

TEST_CASE("loss-target-range stays silent where nothing is outside", "[check]") {
  Program program("loss-target-range");
  program.attach(1, kNet);
  OutOfRangeEvent event = labels_from_one();
  event.offenders_count = 0;
  program.send_now(event);
  CHECK(program.findings.empty());
}

TEST_CASE("loss-target-range takes what the operator says where nobody looked", "[check]") {
  std::string message;
  SECTION("of a label") { message = "Target 9 is out of bounds."; }
  SECTION("of a row") { message = "index out of range in self"; }
  SECTION("of a class") { message = "Class values must be smaller than num_classes."; }
  SECTION("of a probability") { message = "all elements of input should be between 0 and 1"; }
  SECTION("but not of shapes or settings") {}
  Program program("loss-target-range");
  program.attach(1, kNet);
  program.send_now(ErrorEvent{.message = "The size of tensor a must match"});
  program.send_now(
      ErrorEvent{.message = "dropout probability has to be between 0 and 1, but got 1.5"});
  program.send_now(ErrorEvent{.message = message});
  program.send_now(ErrorEvent{.message = message});
  REQUIRE(program.findings.size() == (message.empty() ? 0 : 1));
  if (message.empty()) return;
  CHECK(program.findings[0].severity == Severity::kError);
  CHECK(program.findings[0].why == "it threw: " + message);
  CHECK_FALSE(program.findings[0].fixes.empty());
}

TEST_CASE("loss-target-range does not repeat what it saw before the operator ran", "[check]") {
  Program program("loss-target-range");
  program.attach(1, kNet);
  program.send_now(labels_from_one());
  program.send_now(ErrorEvent{.message = "Target 4 is out of bounds."});
  CHECK(program.findings.size() == 1);
}

}  // namespace ddpscope::test::loss_target_range_test
