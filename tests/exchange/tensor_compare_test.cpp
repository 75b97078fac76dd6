// Which tensors stand behind what digests say.
#include <map>
#include <set>

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::tensor_compare_test {
namespace {
/// Lists of two ranks, and one digest each that says that they differ.
ModelsDiffer models_of(const TensorList& first, const TensorList& second) {
  TestRun run(2);
  run[0].list(first);
  run[1].list(second);
  run[0].digest({.structure = 1});
  run[1].digest({.structure = 2});
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.cohorts.size() == 1);
  REQUIRE(event.cohorts[0].models.size() == 1);
  return event.cohorts[0].models[0];
}
}  // namespace

TEST_CASE("lists in another order differ in the path at their first index", "[compare]") {
  TensorList other = test_list();
  std::swap(other.tensors[1], other.tensors[2]);
  const ModelsDiffer differ = models_of(test_list(), other);
  CHECK(differ.cause == "order");
  CHECK(differ.model == "Net");
  CHECK(differ.first_index == 1);
  REQUIRE(differ.paths.size() == 2);
  CHECK(differ.paths[0].value == "fc2.weight");
  CHECK(differ.paths[0].ranks == RankList{1});
  CHECK(differ.paths[1].value == "fc1.bias");
  CHECK(differ.only_on.empty());
  CHECK(differ.counts.size() == 1);
}

TEST_CASE("a list with more tensors says which ones the others lack", "[compare]") {
  TensorList other = test_list();
  other.tensors.erase(other.tensors.begin() + 1);
  const ModelsDiffer differ = models_of(test_list(), other);
  CHECK(differ.cause == "count");
  CHECK(differ.first_index == 1);
  REQUIRE(differ.only_on.size() == 1);
  CHECK(differ.only_on[0].value == "fc1.bias");
  CHECK(differ.only_on[0].ranks == RankList{0});
  REQUIRE(differ.counts.size() == 2);
  CHECK(differ.counts[0].value == "3");
  CHECK(differ.counts[0].ranks == RankList{1});
}

TEST_CASE("a list that only ends earlier differs in count at its end", "[compare]") {
  TensorList other = test_list();
  other.tensors.pop_back();
  const ModelsDiffer differ = models_of(test_list(), other);
  CHECK(differ.cause == "count");
  CHECK(differ.first_index == 3);
}

TEST_CASE("of tensors with one path shape, dtype, kind or trainability differ", "[compare]") {
  const auto changed = [](auto change) {
    TensorList other = test_list();
    change(other.tensors[2]);
    return models_of(test_list(), other);
  };
  const ModelsDiffer shape = changed([](ListedTensor& t) { t.shape = {4, 8}; });
  CHECK(shape.cause == "shape");
  CHECK(shape.first_index == 2);
  CHECK(shape.values[0].value == "[4, 8]");
  CHECK(shape.values[1].value == "[2, 8]");
  CHECK(changed([](ListedTensor& t) { t.dtype = "float16"; }).cause == "dtype");
  CHECK(changed([](ListedTensor& t) { t.is_buffer = true; }).cause == "buffer");
  CHECK(changed([](ListedTensor& t) { t.path = "fc3.weight"; }).cause == "path");
  const ModelsDiffer frozen = changed([](ListedTensor& t) { t.requires_grad = false; });
  CHECK(frozen.cause == "trainable");
  CHECK(frozen.values[0].value == "frozen");
  CHECK(frozen.values[0].ranks == RankList{1});
}

TEST_CASE("a model that one rank does not have has no tensors there", "[compare]") {
  TestRun run(2);
  run[0].list(test_list());
  run[0].digest({.structure = 1});
  run[1].digest({.structure = 2});
  const auto event = run.compared();
  REQUIRE(event.cohorts[0].models.size() == 1);
  CHECK(event.cohorts[0].models[0].cause == "count");
}

TEST_CASE("the list that stood at the step is compared", "[compare]") {
  TestRun run(2);
  TensorList frozen = test_list();
  frozen.tensors[0].requires_grad = false;
  for (auto& rank : run) rank->list(test_list());
  run[1].list(frozen, 3);
  for (std::int64_t step = 0; step <= 5; ++step) {
    run[0].digest({.step = step, .structure = 1});
    run[1].digest({.step = step, .structure = step >= 3 ? 2U : 1U});
  }
  const auto event = run.compared();
  REQUIRE(event.cohorts[0].models.size() == 1);
  CHECK(event.cohorts[0].models[0].step == 3);
  CHECK(event.cohorts[0].models[0].paths[0].value == "fc1.weight");
}

TEST_CASE("parameters with a gradient on some ranks alone are named", "[compare]") {
  TestRun run(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    run[rank].list(test_list());
    for (std::int64_t step = 1; step <= 4; ++step) {
      const bool lacks = rank == 1 && step >= 2;
      run[rank].writer.put(Blob{BlobKind::kGradients, 0, step, lacks ? "\x03" : "\x07"});
      run[rank].digest({.step = step, .gradients = lacks ? 9U : 8U});
    }
  }
  const auto event = run.compared();
  REQUIRE(event.cohorts[0].gradients.size() == 1);
  const GradientSetsDiffer& differ = event.cohorts[0].gradients[0];
  CHECK(differ.step == 2);
  CHECK(differ.steps == 3);
  REQUIRE(differ.parameters.size() == 1);
  CHECK(differ.parameters[0].path == "fc2.weight");
  CHECK(differ.parameters[0].model == "Net");
  CHECK(differ.parameters[0].with == RankList{0, 2});
  CHECK(differ.parameters[0].without == RankList{1});
}

TEST_CASE("tensors that are not bit-equal are named", "[compare]") {
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].list(test_list());
    const std::uint64_t odd = rank;
    run[rank].digest({.step = 0, .parameters = 5, .buffers = 6});
    put_words(run[rank], 4, {1, 2, 3 + odd, 4 + odd});
    run[rank].digest({.step = 4, .parameters = 7 + odd, .buffers = 6 + odd});
  }
  const auto event = run.compared();
  const auto& values = event.cohorts[0].values;
  REQUIRE(values.size() == 2);
  CHECK(values[0].step == 4);
  CHECK(values[0].equal_until == 0);
  CHECK_FALSE(values[0].of_buffers);
  CHECK(values[0].compared == 3);
  CHECK(values[0].differing == 1);
  REQUIRE(values[0].tensors.size() == 1);
  CHECK(values[0].tensors[0].path == "fc2.weight");
  CHECK(values[0].tensors[0].requires_grad);
  REQUIRE(values[0].tensors[0].sides.size() == 2);
  CHECK(values[0].tensors[0].sides[0].value == "0000000000000004");
  CHECK(values[1].of_buffers);
  REQUIRE(values[1].tensors.size() == 1);
  CHECK(values[1].tensors[0].path == "bn.running_mean");
}

namespace {
/// Two ranks that differ in these parameters of test_list() from these steps on, by place.
struct Drift {
  std::map<std::size_t, std::int64_t> since;
  std::set<std::size_t> frozen = {};
  std::size_t unfrozen_on = 2;  ///< the rank, if one of them
  bool second_lacks_last = false;
  std::string received = {};  ///< bits of those with a gradient; empty: not known

  std::vector<ValuesDiffer> values() const {
    TestRun run(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      TensorList list = test_list();
      list.tensors.pop_back();
      for (const std::size_t place : frozen) {
        list.tensors[place].requires_grad = rank == unfrozen_on;
      }
      if (rank == 1 && second_lacks_last) list.tensors.pop_back();
      run[rank].list(list);
      if (!received.empty()) {
        run[rank].writer.put(Blob{BlobKind::kGradients, 0, /*step=*/1, received});
      }
      for (const std::int64_t step : {0, 2, 4, 8}) put(run[rank], rank, step, list.tensors.size());
    }
    return run.compared().cohorts.at(0).values;
  }

 private:
  void put(TestRank& rank, std::size_t number, std::int64_t step, std::size_t count) const {
    std::vector<std::uint64_t> words;
    std::uint64_t hash = count;
    for (std::size_t place = 0; place < count; ++place) {
      const auto from = since.find(place);
      const bool differs = number == 1 && from != since.end() && step >= from->second;
      words.push_back(10 * (place + 1) + (differs ? 1 : 0));
      hash = hash * 31 + words.back();
    }
    put_words(rank, step, words);
    rank.digest({.step = step, .parameters = hash});
  }
};
}  // namespace

TEST_CASE("parameters that differ are placed at the deepest module above them", "[compare]") {
  const auto path_of = [](const Drift& drift) { return drift.values().at(0).module_path; };
  CHECK(path_of({.since = {{0, 4}, {1, 4}}}) == "fc1");
  CHECK(path_of({.since = {{2, 4}}}) == "fc2");
  CHECK(path_of({.since = {{1, 4}, {2, 4}}}) == "");
  // Of those that train alone, if some do.
  CHECK(path_of({.since = {{0, 4}, {2, 4}}, .frozen = {0}}) == "fc2");
}

TEST_CASE("a parameter that one rank alone unfroze is trained", "[compare]") {
  const auto is_trained = [](std::size_t rank) {
    const Drift drift{.since = {{0, 4}}, .frozen = {0}, .unfrozen_on = rank};
    return drift.values().at(0).tensors.at(0).requires_grad;
  };
  CHECK(is_trained(0));
  CHECK(is_trained(1));
  CHECK_FALSE(is_trained(2));
}

TEST_CASE("matrices that are equal are known beside what differs", "[compare]") {
  const auto is_beside = [](const Drift& drift) { return drift.values().at(0).beside_equal; };
  CHECK(is_beside({.since = {{0, 4}}}));
  CHECK_FALSE(is_beside({.since = {{0, 4}, {2, 4}}}));  // fc1.bias may be zeros
  CHECK_FALSE(is_beside({.since = {{0, 4}}, .frozen = {2}}));
}

TEST_CASE("frozen parameters that differ do not hide others that do later", "[compare]") {
  const auto values = Drift{.since = {{0, 2}, {2, 8}}, .frozen = {0, 1}}.values();
  REQUIRE(values.size() == 1);
  CHECK(values[0].step == 8);
  CHECK(values[0].equal_until == 4);
  CHECK(values[0].differing == 2);
  REQUIRE(values[0].tensors.size() == 2);
  CHECK(values[0].tensors[0].path == "fc2.weight");
  CHECK(values[0].tensors[1].path == "fc1.weight");
  const auto frozen = Drift{.since = {{0, 2}}, .frozen = {0, 1}}.values();
  REQUIRE(frozen.size() == 1);
  CHECK(frozen[0].step == 2);
  CHECK(frozen[0].module_path == "fc1");
}

TEST_CASE("parameters of a model that no gradient ever reached train no more than frozen ones",
          "[compare]") {
  const auto trains = [](const std::string& received) {
    const auto values = Drift{.since = {{0, 2}}, .received = received}.values();
    REQUIRE(values.size() == 1);
    REQUIRE(values[0].tensors.size() == 1);
    return values[0].tensors[0].requires_grad;
  };
  CHECK_FALSE(trains(std::string(1, '\0')));
  CHECK(trains("\x02"));
  CHECK(trains(""));
}

TEST_CASE("only the tensors of models that differ are counted", "[compare]") {
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (const std::uint32_t model : {0U, 1U}) {
      run[rank].list(test_list(), 0, model);
      const std::uint64_t odd = model * rank;
      for (const std::int64_t step : {0, 2}) {
        const std::vector<std::uint64_t> words = {1, 2 + (step > 0 ? odd : 0), 3, 4};
        std::string bytes(words.size() * 8, '\0');
        std::memcpy(bytes.data(), words.data(), bytes.size());
        run[rank].writer.put(Blob{BlobKind::kFingerprints, model, step, bytes});
      }
    }
    run[rank].digest({.step = 0, .parameters = 5});
    run[rank].digest({.step = 2, .parameters = 6 + rank});
  }
  const auto values = run.compared().cohorts.at(0).values;
  REQUIRE(values.size() == 1);
  CHECK(values[0].differing == 1);
  CHECK(values[0].compared == 3);
}

TEST_CASE("of models that differ the parameters that both have are compared", "[compare]") {
  CHECK(Drift{.since = {}, .second_lacks_last = true}.values().empty());
  const auto values = Drift{.since = {{0, 4}}, .second_lacks_last = true}.values();
  REQUIRE(values.size() == 1);
  CHECK(values[0].step == 4);
  CHECK(values[0].equal_until == 2);
  CHECK(values[0].differing == 1);
}

TEST_CASE("without lists the sides alone are told", "[compare]") {
  TestRun run(2);
  run[0].digest({.step = 2, .gradients = 1, .parameters = 3});
  run[1].digest({.step = 2, .gradients = 2, .parameters = 4});
  const auto event = run.compared();
  const Cohort& cohort = event.cohorts[0];
  CHECK(cohort.gradients[0].parameters.empty());
  CHECK(cohort.gradients[0].sides.size() == 2);
  CHECK(cohort.values[0].compared == 0);
  CHECK(cohort.values[0].sides.size() == 2);
}

}  // namespace ddpscope::test::tensor_compare_test
