#include "config/suppressions.h"

#include <string>

#include "tests/support/catch.h"

using namespace ddpscope;  // NOLINT(google-build-using-namespace)

namespace {
Finding finding() {
  Finding out;
  out.id = "grad-never-used";
  out.model = "Net#2";
  out.module_path = "encoder.bn1";
  out.subject = "weight";
  out.op = "aten::copy_";
  out.fingerprint = "00ff12ab";
  return out;
}

Suppression line(std::string_view text) {
  const auto file = parse_suppressions(text, "s.txt");
  INFO(text);
  REQUIRE(file.problems.empty());
  REQUIRE(file.entries.size() == 1);
  return file.entries[0];
}

std::string problem(std::string_view text) {
  const auto file = parse_suppressions(text, "s.txt");
  REQUIRE(file.problems.size() == 1);
  CHECK(file.entries.empty());
  return file.problems[0];
}
}  // namespace

TEST_CASE("a suppression has id, fields in any order and a reason", "[config]") {
  const auto entry = line(
      R"(grad-never-used:op=aten\:\:copy_:until=2027-02-28:model=Net#2:module=encoder.* # frozen)");
  CHECK(entry.id == "grad-never-used");
  CHECK(entry.op == "aten::copy_");
  CHECK(entry.until == "2027-02-28");
  CHECK(entry.model == "Net#2");
  CHECK(entry.module == "encoder.*");
  CHECK_FALSE(entry.subject.has_value());
  CHECK(entry.reason == "frozen");
  CHECK(matches(entry, finding()));
}

TEST_CASE("each field of a suppression must match", "[config]") {
  for (const std::string text :
       {"grad-never-used # r", "grad-* # r", "00ff12ab # r", "*:model=Net* # r", "*:subject=w* # r",
        R"(*:op=aten\:\:* # r)", "*:module=encoder.bn? # r"}) {
    INFO(text);
    CHECK(matches(line(text), finding()));
  }
  for (const std::string text :
       {"grad-other # r", "00ff12ac # r", "*:model=net* # r", "*:subject=bias # r",
        R"(*:op=aten\:\:add # r)", "*:module=encoder # r", "*:module= # r"}) {
    INFO(text);
    CHECK_FALSE(matches(line(text), finding()));
  }
}

TEST_CASE("an empty module is the root", "[config]") {
  Finding root = finding();
  root.module_path.clear();
  CHECK(matches(line("*:module= # r"), root));
}

TEST_CASE("comments, blank lines and line ends are no entries", "[config]") {
  const auto file = parse_suppressions("# all\r\n\r\n  \na-b # one\r\n#x\nc-d # two", "s.txt");
  CHECK(file.problems.empty());
  REQUIRE(file.entries.size() == 2);
  CHECK(file.entries[0].line == 4);
  CHECK(file.entries[0].reason == "one");
  CHECK(file.entries[1].line == 6);
}

TEST_CASE("a wrong suppression is one line with place and reason", "[config]") {
  CHECK(problem("\na-b") ==
        "s.txt:2: no reason; the form is "
        "ID[:model=GLOB][:module=GLOB][:subject=GLOB][:op=GLOB][:until=YYYY-MM-DD]  # reason");
  CHECK(problem("a-b #  ").find("s.txt:1: no reason") == 0);
  CHECK(problem(":module=x # r") == R"(s.txt:1: "" is not a check id or fingerprint)");
  CHECK(problem("A b # r") == R"(s.txt:1: "A b" is not a check id or fingerprint)");
  CHECK(problem("a-b:subjct=x # r") ==
        R"(s.txt:1: unknown field "subjct"; did you mean "subject"?)");
  CHECK(problem("a-b:zzzzzzzz=x # r") == R"(s.txt:1: unknown field "zzzzzzzz")");
  CHECK(problem("a-b:module # r") == R"(s.txt:1: "module" is not key=value)");
  CHECK(problem("a-b:op=aten::add # r") == R"(s.txt:1: "" is not key=value)");
  CHECK(problem("a-b:op=x:op=y # r") == "s.txt:1: op is given twice");
  CHECK(problem("a-b:model=\x1b:x # r") == R"(s.txt:1: "x" is not key=value)");
  for (const std::string date : {"2027-02-29", "2027-2-1", "27-02-01", "2027/02/01", "tomorrow", "",
                                 "2027-13-01", "2027-01--1", "2027--1-01", "2027-01-0x"}) {
    INFO(date);
    CHECK(problem("a-b:until=" + date + " # r").find("is not a date YYYY-MM-DD") !=
          std::string::npos);
  }
  CHECK(problem("a-b:until=2027-01-01:until=2027-01-01 # r") == "s.txt:1: until is given twice");
}

TEST_CASE("hostile suppressions end in few printable lines", "[config]") {
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "\x1b[2J\n";
  const auto file = parse_suppressions(many, "s\x1b.txt");
  CHECK(file.problems.size() == 20);
  CHECK(file.problems[0].find('\x1b') == std::string::npos);
  CHECK(problem(std::string(100000, 'A') + " # r").size() < 200);
}

TEST_CASE("a suppression file that cannot be read is a problem", "[config]") {
  CHECK(read_suppressions("/nonexistent/s").problems ==
        std::vector<std::string>{
            R"(suppressions="/nonexistent/s" is not a readable file: no such file)"});
}

TEST_CASE("a suppression ends after its last day", "[config]") {
  const auto entry = line("a-b:until=2027-02-28 # r");
  CHECK_FALSE(expired(entry, "2027-02-27"));
  CHECK_FALSE(expired(entry, "2027-02-28"));
  CHECK(expired(entry, "2027-03-01"));
  CHECK_FALSE(expired(line("a-b # r"), "9999-12-31"));
  CHECK(today_utc().size() == 10);
  CHECK(today_utc() > "2025-01-01");
}

TEST_CASE("each line of a suppressions file tells what became of it", "[config]") {
  SuppressionList list(parse_suppressions("grad-*:until=2020-01-01 # old\n"
                                          "grad-never-used:module=encoder.* # used\n"
                                          "module-x:subject=a\\:b # unused\n",
                                          "s.txt"),
                       "2027-01-01");
  const Suppression* found = list.find(finding());
  REQUIRE(found != nullptr);
  CHECK(found->reason == "used");
  Finding other = finding();
  other.id = "other";
  CHECK(list.find(other) == nullptr);

  const auto records = list.records();
  REQUIRE(records.size() == 3);
  CHECK(records[0].state == SuppressionState::kExpired);
  CHECK(records[0].until == "2020-01-01");
  CHECK(records[1].state == SuppressionState::kUsed);
  CHECK(records[1].until == "");
  CHECK(records[2].state == SuppressionState::kUnused);
  CHECK(records[2].path == "s.txt");
  CHECK(records[2].line == 3);
  CHECK(records[2].text == "module-x:subject=a\\:b");
}

TEST_CASE("a line that matches after another one did is used too", "[config]") {
  SuppressionList list(parse_suppressions("grad-* # wide\ngrad-never-used # narrow\n", "s.txt"),
                       "2027-01-01");
  REQUIRE(list.find(finding()) != nullptr);
  CHECK(list.find(finding())->reason == "wide");
  for (const auto& record : list.records()) CHECK(record.state == SuppressionState::kUsed);
}

TEST_CASE("a long line of a suppressions file is shown in part", "[config]") {
  const auto entry = line("a-b:op=" + std::string(5000, 'x') + " # r");
  CHECK(entry.op == std::string(5000, 'x'));
  CHECK(entry.text.size() == 256 + 3);
  CHECK(entry.text.substr(250) == "xxxxxx...");
}
