#include "tests/support/catch.h"
#include "tests/support/nonfinite_steps.h"

namespace ddpscope::test::numeric_nonfinite_backward_test {
namespace {
constexpr char kCheck[] = "numeric-nonfinite-backward";

NonfiniteNodeEvent overflowing_node() {
  NonfiniteNodeEvent node = log_node();
  node.returned = infs(5, 4096);
  return node;
}
}  // namespace

TEST_CASE("numeric-nonfinite-backward names the node that made NaN", "[check]") {
  NonfiniteSteps run(kCheck);
  run.finite_step();
  run.program.op({.name = "aten::log", .inputs = {21, kHead}, .outputs = {22}});
  run.program.op({.name = "aten::where", .inputs = {22, 23}, .outputs = {24}});
  run.bad_backward(log_node());
  CHECK(run.program.findings.empty());
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.phase == Phase::kBackward);
  CHECK(finding.step == 2);
  CHECK(finding.module_path == "head");
  CHECK(finding.op == "LogBackward0");
  CHECK(finding.what ==
        "gradient turns NaN here, 12 of 4096 elements; the loss and the incoming gradient are "
        "finite");
  CHECK(finding.why ==
        "the smallest element that aten::log read or returned in forward was 0 and `where` masks "
        "the value, not the slope; aten::log ran in head (train.cpp:40)");
  CHECK(finding.evidence_status == EvidenceStatus::kEstablished);
  CHECK(finding.fixes.size() == 3);
  CHECK(finding.fixes[2].text == "log_softmax instead of log(softmax)");
  CHECK(fact_of<std::string>(finding, "node") == "LogBackward0");
  CHECK(fact_of<std::string>(finding, "forward_op") == "aten::log");
  CHECK(fact_of<std::int64_t>(finding, "nan_count") == 12);
  CHECK(fact_of<std::int64_t>(finding, "inf_count") == 0);
  CHECK(fact_of<double>(finding, "forward_input_min") == 0);
  CHECK(fact_of<std::int64_t>(finding, "confirmed_step") == 2);
  REQUIRE(finding.sites.size() == 1);
  CHECK(finding.sites[0].role == "created");
}

TEST_CASE("numeric-nonfinite-backward knows sums that overflow", "[check]") {
  NonfiniteSteps run(kCheck);
  run.finite_step();
  NonfiniteNodeEvent node = overflowing_node();
  node.node = "AddmmBackward0";
  node.op = "aten::addmm";
  node.incoming_absmax = 1;
  run.bad_backward(node);
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(
      finding.why.starts_with("it sums up finite products, over the rows of the batch for a "
                              "parameter, of incoming gradients of 1 at most: "));
  REQUIRE(finding.fixes.size() == 2);
  CHECK(finding.fixes[0].text.starts_with("average the loss over the rows of the batch"));
}

TEST_CASE("numeric-nonfinite-backward knows decompositions of equal values", "[check]") {
  NonfiniteSteps run(kCheck);
  NonfiniteNodeEvent node = log_node();
  node.node = "LinalgSvdBackward0";
  node.op = "aten::linalg_svd";
  run.bad_backward(node);
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].why.starts_with("its gradient divides by the differences of"));
  CHECK(run.program.findings[0].fixes[0].text.starts_with("keep the values apart before it"));
}

TEST_CASE("numeric-nonfinite-backward says where hooks rest what float16 holds", "[check]") {
  const std::string dtype = GENERATE("float16", "float32");
  Program program(kCheck);
  program.attach(1, {{.id = kHead, .path = "head.bias", .dtype = dtype}});
  program.optimizer(1, {kHead});
  SpoiltStepEvent spoilt{.at = program.now()};
  spoilt.gradients.push_back({.at = spoilt.at, .tensor = kHead, .values = infs(2, 4)});
  program.send_now(spoilt);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].fixes[0].text.starts_with("run it in float32 or bfloat16") ==
        (dtype == "float16"));
}

TEST_CASE("numeric-nonfinite-backward tells from gradients alone where hooks rest", "[check]") {
  NonfiniteSteps run(kCheck);
  run.finite_step();
  SpoiltStepEvent spoilt{.at = run.program.now(), .last_finite = kHead};
  spoilt.gradients.push_back({.at = spoilt.at, .tensor = kConv, .values = nans(8, 4096)});
  run.program.send_now(spoilt);
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.confidence == Confidence::kMedium);
  CHECK(finding.module_path.empty());  // what holds conv and head
  CHECK(finding.op.empty());
  CHECK(finding.what ==
        "gradient turns NaN at or behind conv1.weight: 8 of 4096 elements are NaN; the loss is "
        "finite");
  CHECK(finding.why.starts_with("that of head.weight, which came before it, is finite; "));
  run.program.send_now(spoilt);
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("numeric-nonfinite-backward names no module where all gradients are bad", "[check]") {
  NonfiniteSteps run(kCheck);
  SpoiltStepEvent spoilt{.at = run.program.now()};
  for (const TensorId leaf : {kHead, kConv}) {
    spoilt.gradients.push_back({.at = spoilt.at, .tensor = leaf, .values = nans(4, 64)});
  }
  run.program.send_now(spoilt);
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].module_path.empty());  // the loss may be it
  CHECK(run.program.findings[0].what.find("head.weight") != std::string::npos);
  CHECK(run.program.findings[0].why.starts_with("passes over values rested"));
}

TEST_CASE("numeric-nonfinite-backward leaves NaN that forward saved to forward", "[check]") {
  NonfiniteSteps run(kCheck);
  run.finite_step();
  NonfiniteNodeEvent node = log_node();
  node.saved_nan = true;
  run.bad_backward(node);
  run.step();
  CHECK(run.program.findings.empty());
}

TEST_CASE("numeric-nonfinite-backward tells what other ranks sent", "[check]") {
  NonfiniteSteps run(kCheck);
  NonfiniteNodeEvent node = log_node();
  node.node =
      "torch::autograd::CppNode<ddpscope::batch_norm::(anonymous namespace)::SyncBatchNorm>";
  node.op = "";
  run.bad_backward(node);
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.op == "ddpscope::sync_batch_norm");
  CHECK(finding.why.starts_with(
      "the gradient that other ranks gave the layer was not finite: its backward sums over all"));
  REQUIRE(finding.fixes.size() == 1);
  CHECK(finding.fixes[0].text.starts_with("look at the rank that sent it"));
}

TEST_CASE("numeric-nonfinite-backward blames a batch norm for its own overflow", "[check]") {
  NonfiniteSteps run(kCheck);
  NonfiniteNodeEvent node = overflowing_node();
  node.op = "ddpscope::sync_batch_norm";
  run.bad_backward(node);
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(!run.program.findings[0].why.starts_with("the gradient that other ranks"));
}

TEST_CASE("numeric-nonfinite-backward says what forward tells of the slope", "[check]") {
  NonfiniteSteps run(kCheck);
  NonfiniteNodeEvent node = log_node();
  SECTION("the input that a surveyed operator read") {
    run.program.send_now(risky_log());
    run.bad_backward(node);
    run.step();
    CHECK(run.program.findings.at(0).why.starts_with("the forward input minimum was 0;"));
  }
  SECTION("nothing") {
    node.saved_known = false;
    node.node = "SqrtBackward0";
    node.op = "aten::sqrt";
    run.bad_backward(node);
    run.step();
    CHECK(run.program.findings.at(0).why.starts_with(
        "the slope of aten::sqrt is not finite at what it read;"));
    CHECK(run.program.findings[0].fixes.size() == 2);
  }
}

TEST_CASE("numeric-nonfinite-backward takes the word of anomaly mode", "[check]") {
  NonfiniteSteps run(kCheck);
  run.loss(0.5);
  run.program.in_backward = [&run] {
    run.program.send_now(ErrorEvent{
        .at = {}, .message = "Function 'LogBackward0' returned nan values in its 0th output."});
  };
  run.backward();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].op == "LogBackward0");
  CHECK(run.program.findings[0].what ==
        "gradient turns NaN here, as the anomaly mode of LibTorch says");
  CHECK(fact_of<std::string>(run.program.findings[0], "forward_op") == "aten::log");
}

TEST_CASE("numeric-nonfinite-backward reports Inf once the optimizer has stepped with it") {
  NonfiniteSteps run(kCheck);
  run.bad_backward(overflowing_node());
  CHECK(run.program.findings.empty());
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].what.starts_with("gradient turns Inf here, 5 of 4096 elements"));
}

TEST_CASE("numeric-nonfinite-backward falls back to the first leaf", "[check]") {
  NonfiniteSteps run(kCheck);
  run.loss(0.5);
  run.program.in_backward = [&run] {
    run.gradient(kHead, nans(2, 64));
    run.gradient(kConv);
  };
  run.backward();
  CHECK(run.program.findings.empty());
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.module_path == "head");
  CHECK(finding.op.empty());
  CHECK(finding.what ==
        "gradient turns NaN at or behind weight: 2 of 64 elements are NaN; the loss is finite");
  CHECK(finding.evidence_status == EvidenceStatus::kSupported);
  CHECK(finding.confidence == Confidence::kMedium);
}

TEST_CASE("numeric-nonfinite-backward does not blame later steps", "[check]") {
  NonfiniteSteps run(kCheck);
  run.bad_backward(log_node());
  run.step();
  NonfiniteNodeEvent other = log_node();
  other.place.module = kConvModule;
  run.bad_backward(other);
  run.step();
  CHECK(run.program.findings.size() == 1);
  run.finite_step();
  run.bad_backward(other);
  run.step();
  CHECK(run.program.findings.size() == 2);
}

TEST_CASE("numeric-nonfinite-backward stays silent", "[check]") {
  NonfiniteSteps run(kCheck);
  SECTION("where forward was not finite") {
    run.bad_forward(overflow());
    run.step();
  }
  SECTION("on NaN that a later node absorbs before it reaches a parameter") {
    run.loss(0.5);
    run.program.in_backward = [&run] { run.program.send_now(log_node()); };
    run.backward();
    run.step();
  }
  SECTION("on Inf that a loss scaler skips") {
    run.finite_step();
    run.bad_backward(overflowing_node());
    run.program.zero_grad(1);
    run.finite_step();
  }
  SECTION("on Inf that the program clears before the step") {
    run.finite_step();
    run.bad_backward(overflowing_node());
    run.step();
    run.program.findings.clear();
    run.finite_step();
    run.bad_backward(overflowing_node());
    run.program.zero_grad(1);
    run.program.step(1);
  }
  SECTION("on gradients that are not defined") {
    run.program.gradient_undefined(kHead);
    run.finite_step();
  }
  SECTION("where nothing is known of the loss") {
    run.program.in_backward = [&run] { run.gradient(kHead); };
    run.backward();
    run.step();
  }
  SECTION("on other errors") {
    run.loss(0.5);
    run.program.in_backward = [&run] {
      run.program.send_now(ErrorEvent{.at = {}, .message = "Function 'f' failed"});
    };
    run.backward();
  }
  SECTION("after events were lost") {
    run.loss(0.5);
    run.program.in_backward = [&run] {
      run.program.drop_events();
      run.gradient(kHead);
    };
    run.backward();
    run.step();
  }
  CHECK(run.program.findings.empty());
}

}  // namespace ddpscope::test::numeric_nonfinite_backward_test
