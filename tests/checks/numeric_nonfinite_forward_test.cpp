#include "model/node_name.h"
#include "tests/support/catch.h"
#include "tests/support/nonfinite_steps.h"

namespace ddpscope::test::numeric_nonfinite_forward_test {

TEST_CASE("numeric-nonfinite-forward names the operator that made the loss NaN", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  run.finite_step();
  run.bad_step(overflow());
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.phase == Phase::kForward);
  CHECK(finding.step == 2);
  CHECK(finding.model == "net");
  CHECK(finding.module_path == "conv1");
  CHECK(finding.op == "aten::convolution");
  CHECK(finding.what == "3 of 65536 output elements are Inf, all inputs finite (absmax 4.1e+04)");
  CHECK(finding.why ==
        "213 non-finite results after it in this step; the loss is nan; aten::convolution ran in "
        "conv1 (train.cpp:88)");
  CHECK(finding.evidence_status == EvidenceStatus::kEstablished);
  CHECK(finding.confidence == Confidence::kHigh);
  CHECK(cause_of(finding) == "operator");
  CHECK(fact_of<std::int64_t>(finding, "nan_count") == 0);
  CHECK(fact_of<std::int64_t>(finding, "inf_count") == 3);
  CHECK(fact_of<std::int64_t>(finding, "elements") == 65536);
  CHECK(fact_of<std::string>(finding, "dtype") == "float32");
  CHECK(fact_of<double>(finding, "input_absmax") == 4.1e4);
  CHECK(fact_of<std::int64_t>(finding, "victims_count") == 213);
  REQUIRE(finding.sites.size() == 1);
  CHECK(finding.sites[0].role == "created");
}

TEST_CASE("numeric-nonfinite-forward says what float16 holds", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  origin.output.dtype = "float16";
  run.bad_step(origin);
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].why.ends_with("; float16 ends at 65504"));
  CHECK(run.program.findings[0].fixes.at(1).text == "run it in float32 or bfloat16");
}

TEST_CASE("numeric-nonfinite-forward tells what other ranks sent", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  origin.op = kSyncBatchNorm;
  origin.inputs.nan_count = 2;
  run.bad_step(origin);
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.what ==
        "3 of 65536 output elements are Inf, its input finite (absmax 4.1e+04): statistics of "
        "other ranks were not, in 2 channels");
  CHECK(cause_of(finding) == "other_rank");
  CHECK(finding.evidence_status == EvidenceStatus::kEstablished);
  REQUIRE(finding.fixes.size() == 1);
  CHECK(finding.fixes[0].text.starts_with("look at the rank that sent them"));
}

TEST_CASE("numeric-nonfinite-forward blames a batch norm for what it made itself", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  origin.op = kSyncBatchNorm;
  run.bad_step(origin);
  REQUIRE(run.program.findings.size() == 1);
  CHECK(cause_of(run.program.findings[0]) == "operator");
}

TEST_CASE("numeric-nonfinite-forward names the batch", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  run.program.send_now(TensorEvent{.at = {}, .tensor = {.id = 40}});  // the other is unknown
  NonfiniteOutputEvent origin = overflow();
  origin.source = GENERATE(TensorId{40}, TensorId{41});
  origin.source_values = nans(1, 512);
  run.bad_step(origin);
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.what == "the batch was not finite when forward read it: 1 of 512 elements is NaN");
  CHECK(finding.confidence == Confidence::kMedium);
  CHECK(finding.fixes.back().text.starts_with("where the program computes it"));
  CHECK(finding.module_path == "conv1");
  CHECK(finding.subject.empty());
  CHECK(cause_of(finding) == "batch");
  CHECK(fact_of<std::int64_t>(finding, "nan_count") == 1);
  CHECK(fact_of<std::int64_t>(finding, "elements") == 512);
}

TEST_CASE("numeric-nonfinite-forward names the parameter or buffer", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  run.program.leaf(42, {7});
  NonfiniteOutputEvent origin = overflow();
  origin.source_values = infs(2, 64);
  SECTION("that is registered") {
    origin.source = kHead;
    run.bad_step(origin);
    REQUIRE(run.program.findings.size() == 1);
    CHECK(run.program.findings[0].what ==
          "the parameter weight was not finite when forward read it: 2 of 64 elements are Inf");
    CHECK(run.program.findings[0].module_path == "head");
    CHECK(run.program.findings[0].subject == "weight");
  }
  SECTION("that is a buffer") {
    origin.source = kMean;
    run.bad_step(origin);
    REQUIRE(run.program.findings.size() == 1);
    CHECK(run.program.findings[0].subject == "mean");
    CHECK(run.program.findings[0].what.starts_with("the buffer mean"));
  }
  SECTION("that no module registers") {
    origin.source = 42;
    run.bad_step(origin);
    REQUIRE(run.program.findings.size() == 1);
    CHECK(run.program.findings[0].subject == "[7]");
  }
  CHECK(cause_of(run.program.findings[0]) == "parameter");
}

TEST_CASE("numeric-nonfinite-forward tells an input of 0 by the result alone", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  origin.op = "aten::rsqrt";
  origin.inputs_known = false;
  origin.was_zero = true;
  run.bad_step(origin);
  const Finding& finding = run.program.findings.at(0);
  CHECK(finding.what == "3 of 65536 output elements are Inf, its input was 0 there");
  CHECK(finding.evidence_status == EvidenceStatus::kEstablished);
  CHECK(finding.fixes[0].text == "add an epsilon before the operator, or clamp its input to one");
}

TEST_CASE("numeric-nonfinite-forward takes the module of the leaf that was read", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  origin.place = {.leaf = kHead};
  origin.made.reset();
  SECTION("by the operator itself") {
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).module_path == "head");
    CHECK(run.program.findings.at(0).why.ends_with("ran on a parameter of head"));
  }
  SECTION("by those around it") {
    origin.place = {.leaf_before = kConv, .leaf_after = kHead};
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).module_path.empty());
    CHECK(run.program.findings.at(0).why.ends_with("ran between conv1 and head"));
  }
}

TEST_CASE("numeric-nonfinite-forward places an operator between two modules", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  origin.place.module = 0;
  origin.made.reset();
  SECTION("both known") {
    origin.place.before = kConvModule;
    origin.place.after = kHeadModule;
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).why.ends_with("ran between conv1 and head"));
  }
  SECTION("after the last module") {
    origin.place.before = kHeadModule;
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).why.ends_with("ran after head"));
  }
  SECTION("after the model itself, which has no path") {
    origin.place.before = 1000;
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).why.ends_with("ran after net"));
  }
  SECTION("before the first") {
    origin.place.after = kConvModule;
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).why.ends_with("ran before conv1"));
  }
  CHECK(run.program.findings[0].module_path.empty());
}

TEST_CASE("numeric-nonfinite-forward says what it cannot know", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  SECTION("inputs that are gone") {
    origin.inputs_known = false;
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).what.ends_with("its inputs were not kept"));
  }
  SECTION("a result that is gone") {
    origin.values = {};
    origin.inputs = infs(1, 4);
    run.bad_step(origin);
    CHECK(
        run.program.findings.at(0).what ==
        "NaN or Inf began here (its result was not kept), and so are inputs that nothing known to "
        "autograd computed");
  }
  SECTION("of an empty batch among others, what the other ranks sent") {
    origin.op = "ddpscope::sync_batch_norm";
    origin.inputs = {.nan_count = 2};
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).what.ends_with(
        "statistics of other ranks were not, in 2 channels"));
    return;
  }
  SECTION("more than that there were no inputs") {
    origin.values = {};
    origin.inputs = {};
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).what.ends_with("its input has no elements"));
    CHECK(run.program.findings[0].fixes.size() == 1);
    CHECK(run.program.findings[0].fixes[0].text.ends_with("divide a sum by max(count, 1)"));
  }
  SECTION("which operator was first") {
    origin.candidates = {"aten::div", "aten::mul"};
    run.bad_step(origin);
    CHECK(run.program.findings.at(0).why.ends_with(
        "; what aten::div, aten::mul after it read is gone, one of them may have been first"));
    CHECK(run.program.findings[0].evidence_status == EvidenceStatus::kHypothesis);
    CHECK(run.program.findings[0].confidence == Confidence::kLow);
    return;
  }
  CHECK(run.program.findings[0].evidence_status == EvidenceStatus::kSupported);
  CHECK(run.program.findings[0].confidence == Confidence::kMedium);
}

TEST_CASE("numeric-nonfinite-forward never attributes what follows from an earlier step") {
  NonfiniteSteps run("numeric-nonfinite-forward", /*optimizer=*/GENERATE(true, false));
  NonfiniteOutputEvent follows = overflow();
  follows.place.module = kHeadModule;
  run.bad_forward(overflow());
  run.program.step(1);
  SECTION("with a parameter") {
    follows.source = kConv;
    run.bad_step(follows);
  }
  SECTION("with an operator") { run.bad_step(follows); }
  SECTION("with a parameter that a finite step of another model did not heal") {
    run.finite_step();
    follows.source = kConv;
    run.bad_step(follows);
  }
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("numeric-nonfinite-forward reports again after a skipped step", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  run.bad_forward(overflow());
  run.program.zero_grad(1);  // and no step
  run.finite_step();
  NonfiniteOutputEvent other = overflow();
  other.place.module = kHeadModule;
  run.bad_step(other);
  CHECK(run.program.findings.size() == 2);
}

TEST_CASE("numeric-nonfinite-forward reports one origin per step", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent other = overflow();
  other.place.module = kHeadModule;
  run.bad_forward(overflow());
  run.bad_step(other);
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("numeric-nonfinite-forward waits for the step where a scaled loss overflows", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  run.finite_step();
  NonfiniteOutputEvent product = overflow();
  product.op = "aten::mul";
  product.values = {};  // the loss itself, which no node has saved
  run.bad_forward(product);
  CHECK(run.program.findings.empty());
  SECTION("that is skipped") {
    run.program.zero_grad(1);
    run.finite_step();
    CHECK(run.program.findings.empty());
  }
  SECTION("that is made") {
    run.program.step(1);
    CHECK(run.program.findings.size() == 1);
  }
}

TEST_CASE("numeric-nonfinite-forward stays silent", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  SECTION("on what never reaches the loss: masks before softmax, beam search, raw memory") {
    run.program.op({.name = "aten::masked_fill", .inputs = {20, kConv}, .outputs = {21}});
    run.finite_step();
  }
  SECTION("on a loss that is finite while a gradient is not") { run.bad_backward(log_node()); }
  SECTION("on a NaN loss without a backward") { run.program.exit(); }
  CHECK(run.program.findings.empty());
}

}  // namespace ddpscope::test::numeric_nonfinite_forward_test
