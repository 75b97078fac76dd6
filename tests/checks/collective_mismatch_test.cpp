#include "tests/support/catch.h"
#include "tests/support/rank_events.h"

namespace ddpscope::test::collective_mismatch_test {
namespace {
const CallRecord kReduce{.seq = 481,
                         .group = kTestGroup,
                         .unix_ns = 50,
                         .elements = 4096,
                         .step = 20,
                         .kind = CollectiveKind::kAllReduce,
                         .reduce = ReduceKind::kSum,
                         .phase = Phase::kReduce};

CallSide reduction(RankList ranks) {
  return {compared_call(kReduce, {"layer2.weight.grad", "layer2"}), std::move(ranks), true};
}

CallSide other(RankList ranks, CallRecord record, const CallWords& names = {}) {
  return {compared_call(record, names), std::move(ranks)};
}

CallSide broadcast(RankList ranks) {
  CallRecord record = kReduce;
  record.kind = CollectiveKind::kBroadcast;
  record.reduce = ReduceKind::kNone;
  record.elements = 64;
  record.root = 0;
  return other(std::move(ranks), record, {"", "evaluate"});
}

CallsDiffer differ(std::vector<CallSide> sides, std::vector<std::string> fields) {
  return {.group = kTestGroup,
          .seq = 481,
          .step = 20,
          .fields = std::move(fields),
          .sides = std::move(sides)};
}

Finding only(std::vector<CallsDiffer> differences) {
  RanksComparedEvent run = compared_run(8);
  run.calls_differ = std::move(differences);
  const Findings findings = judged(run, "collective-mismatch");
  REQUIRE(findings.size() == 1);
  return findings[0];
}
}  // namespace

TEST_CASE("collective-mismatch says what each side issued and who is alone", "[check]") {
  const Finding finding = only(
      {differ({broadcast({7}), reduction({0, 1, 2, 3, 4, 5, 6})}, {"kind", "elements", "root"})});
  CHECK(finding.what ==
        "call 481 is all_reduce float32[4096] of layer2.weight.grad (in layer2) on ranks 0-6 and "
        "broadcast float32[64] from root 0 (in evaluate) on rank 7");
  CHECK(finding.why ==
        "rank 7 issued its call 481 in evaluate of step 20, the others in layer2 of "
        "step 20");
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.rank == 7);
  CHECK(finding.ranks == RankList{7});
  CHECK(finding.step == 20);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(finding.module_path == "layer2");
  CHECK(finding.subject == "weight");
  CHECK(fact_of(finding, "seq") == FactValue(std::int64_t{481}));
  CHECK(fact_of(finding, "group") == FactValue(std::string("7777777700000000")));
  CHECK(fact_of(finding, "fields") == words({"kind", "elements", "root"}));
  CHECK(fact_of(finding, "minority_ranks") == numbers({7}));
  CHECK(fact_of(finding, "call_per_side") ==
        words({"all_reduce float32[4096] of layer2.weight.grad (in layer2) on ranks 0-6",
               "broadcast float32[64] from root 0 (in evaluate) on rank 7"}));
}

TEST_CASE("collective-mismatch blames of two ranks the one that changed its order", "[check]") {
  CallSide changed = reduction({0});
  changed.as_before = false;
  changed.call.owner = "head.weight.grad";
  const Finding finding = only({differ({reduction({1}), changed}, {"owner"})});
  CHECK(finding.rank == 0);
  CHECK(finding.subject == "weight");
  CHECK(finding.why ==
        "the sizes are equal, so the calls complete in silence and mix different tensors");
  const Finding unknown = only({differ({changed, reduction({0})}, {"owner"})});
  CHECK(unknown.rank == 0);  // the smaller side comes first
}

TEST_CASE("collective-mismatch names the operation where that differs", "[check]") {
  CallRecord record = kReduce;
  record.reduce = ReduceKind::kMax;
  const Finding finding = only(
      {differ({other({1}, record, {"layer2.weight.grad", "layer2"}), reduction({0})}, {"reduce"})});
  CHECK(finding.what ==
        "call 481 is all_reduce(sum) float32[4096] of layer2.weight.grad (in layer2) on rank 0 and "
        "all_reduce(max) float32[4096] of layer2.weight.grad (in layer2) on rank 1");
  CHECK(finding.why ==
        "the calls complete in silence; each rank combines the values in its own "
        "way");
}

TEST_CASE("collective-mismatch names the lines of both sides", "[check]") {
  const bool by_helper = GENERATE(false, true);
  const auto called_at = [by_helper](std::int64_t line) {
    Site site{.role = "called", .frames = {{.file = "src/train.cpp", .line = line}}};
    const Frame helper{.function = "sum", .file = "src/ranks.h", .line = 20};
    if (by_helper) site.frames.insert(site.frames.begin(), helper);
    return site;
  };
  CallSide odd = broadcast({1}), usual = reduction({0});
  CHECK(fact_of(only({differ({odd, usual}, {"kind"})}), "site_per_side") ==
        FactValue(std::string("absent")));
  odd.call.site = called_at(90);
  usual.call.site = called_at(88);
  const Finding finding = only({differ({odd, usual}, {"kind"})});
  CHECK(fact_of(finding, "site_per_side") ==
        words({"train.cpp:88 on rank 0", "train.cpp:90 on rank 1"}));
  CHECK(finding.why.ends_with("; called at train.cpp:88 on rank 0, at train.cpp:90 on rank 1"));
  REQUIRE(finding.sites.size() == 2);
  CHECK(finding.sites[1].frames[0].line == 90);
}

TEST_CASE("collective-mismatch asks for one size where one line issued two", "[check]") {
  CallRecord shorter = kReduce;
  shorter.elements = 2;
  CallSide odd = other({1}, shorter), usual = reduction({0});
  const auto fix = [&] { return only({differ({odd, usual}, {"elements"})}).fixes.front().text; };
  CHECK(fix().starts_with("issue the same calls"));
  odd.call.site =
      usual.call.site = {.role = "called", .frames = {{.file = "train.cpp", .line = 40}}};
  CHECK(fix().starts_with("give that call as many elements"));
  odd.call.record.step = 21;
  CHECK(fix().starts_with("issue the same calls"));
}

TEST_CASE("collective-mismatch asks for one order where parameters are sent first", "[check]") {
  CallSide odd = broadcast({1}), usual = broadcast({0});
  odd.call.site = usual.call.site = {.role = "called", .frames = {{.file = "a.cpp", .line = 4}}};
  for (CallSide* side : {&odd, &usual}) side->call.record.step = 20;
  CallsDiffer sizes = differ({odd, usual}, {"elements"});
  CHECK(only({sizes}).fixes.front().text.starts_with("give that call as many elements"));
  sizes.step = 1;
  for (CallSide& side : sizes.sides) {
    side.call.record.step = 1;
    side.call.record.phase = Phase::kInit;
  }
  CHECK(only({sizes}).fixes.front().text.starts_with("if these are the parameters of a model"));
}

TEST_CASE("collective-mismatch says of a barrier that it is one", "[check]") {
  CallRecord record = kReduce;
  record.kind = CollectiveKind::kBarrier;
  const Finding finding = only({differ({other({1}, record), reduction({0})}, {"kind"})});
  CHECK(finding.what ==
        "call 481 is all_reduce float32[4096] of layer2.weight.grad (in layer2) on rank 0 and "
        "barrier on rank 1");
}

TEST_CASE("collective-mismatch tells the steps where they differ", "[check]") {
  CallRecord later = kReduce;
  later.step = 21;
  later.elements = 72;
  const Finding finding =
      only({differ({other({1}, later, {"conv1.weight.grad", "layer2"}), reduction({0})},
                   {"elements", "owner"})});
  CHECK(finding.what ==
        "call 481 is all_reduce float32[4096] of layer2.weight.grad (in layer2) in step 20 on rank "
        "0 and all_reduce float32[72] of conv1.weight.grad (in layer2) in step 21 on rank 1");
}

TEST_CASE("collective-mismatch tells of the earliest group alone", "[check]") {
  CallsDiffer later = differ({broadcast({1}), reduction({0})}, {"kind"});
  later.step = 21;
  CallsDiffer first = differ({broadcast({3}), reduction({0})}, {"kind"});
  CHECK(only({later, first}).rank == 3);
}

TEST_CASE("collective-mismatch stays silent where nothing differs", "[check]") {
  CHECK(judged(compared_run(2), "collective-mismatch").empty());
}

}  // namespace ddpscope::test::collective_mismatch_test
