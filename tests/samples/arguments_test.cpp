#include "samples/support/arguments.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace samples {
namespace {

Arguments parsed(std::vector<std::string> words) {
  words.insert(words.begin(), "sample");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse(static_cast<int>(pointers.size()), pointers.data(), {"first", "second"},
               {.steps = 7});
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    parsed(words);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a sample without arguments is correct and keeps its defaults", "[samples]") {
  const Arguments arguments = parsed({});
  CHECK(arguments.has("none"));
  CHECK(arguments.steps == 7);
  CHECK(arguments.diagnostics);
  CHECK_FALSE(arguments.only_lists);
}

TEST_CASE("a sample takes a mistake, numbers, files and switches", "[samples]") {
  const Arguments arguments = parsed({"--bug", "second", "--steps", "12", "--seed", "3", "--text",
                                      "a", "--text", "b", "--dump", "c", "--no-diagnostics"});
  CHECK(arguments.has("second"));
  CHECK(arguments.steps == 12);
  CHECK(arguments.seed == 3);
  CHECK(arguments.texts == std::vector<std::filesystem::path>{"a", "b"});
  CHECK(arguments.dump == "c");
  CHECK_FALSE(arguments.diagnostics);
}

TEST_CASE("a sample takes its data, a saved model and a folder to write to", "[samples]") {
  CHECK(parsed({}).data == "data");
  const Arguments arguments = parsed({"--data", "d", "--model", "m", "--out", "o"});
  CHECK(arguments.data == "d");
  CHECK(arguments.model == "m");
  CHECK(arguments.out == "o");
}

TEST_CASE("a sample refuses what it does not know", "[samples]") {
  CHECK(refusal({"--bug", "third"}) == "no bug is named \"third\"; --list-bugs names them");
  CHECK(refusal({"--steps", "0"}) == "--steps takes a whole number of at least 1, not \"0\"");
  CHECK(refusal({"--seed", "1x"}) == "--seed takes a whole number of at least 1, not \"1x\"");
  CHECK(refusal({"--stpes", "3"}) == "cannot use the argument \"--stpes\"");
  CHECK(refusal({"--bug"}) == "cannot use the argument \"--bug\"");
}

}  // namespace samples
