#include "tools/rank_output.h"

#include "tests/support/catch.h"

using ddpscope::LastLine;
using ddpscope::LinePrefixer;
using namespace std::string_literals;

TEST_CASE("each line gets the prefix once, however the bytes arrive", "[tools]") {
  LinePrefixer lines("[rank 3] ");
  CHECK(lines.feed("one\ntw") == "[rank 3] one\n");
  CHECK(lines.holds_part());
  CHECK(lines.feed("o\n\n") == "[rank 3] two\n[rank 3] \n");
  CHECK(!lines.holds_part());
  CHECK(lines.last_line() == "two");
}

TEST_CASE("the last line is the last that says what went wrong", "[tools]") {
  LinePrefixer lines("> ");
  lines.feed("sizes differ\nException raised from f at f.cpp:2 (most recent call first):\n");
  lines.feed("frame #0: forward\n  why: a\n  fix: b\n  see: ddpscope explain x\n \n");
  CHECK(lines.last_line() == "sizes differ");
}

TEST_CASE("the last line is the program's own, not one of ddpscope", "[tools]") {
  LinePrefixer lines("> ", LastLine::kOfProgram);
  lines.feed("rank 1: error: step 3 has no data [cache]\n");
  lines.feed("rank 0 step 4 head: warning: 2 parameters received no gradient [grad-missing]\n");
  lines.feed("  registered: main  src/train.cpp:8\n  why: a\n  see: ddpscope explain x\n");
  lines.feed("checks: 40 run, 38 passed, 2 failed, 0 blocked\n  blocked: a-b: no rank\n");
  lines.feed("overhead: 1.4 % of step time\nsuppressed: 0\n  suppression: a.txt:1: unused\n");
  lines.feed("ddpscope: 1 error, 0 warnings, 0 notes; primary grad-missing in head\n");
  CHECK(lines.last_line() == "rank 1: error: step 3 has no data [cache]");
  lines.feed("ddpscope: error: a\nchecks: 3 failed\n  input: of this kind\n");
  CHECK(lines.last_line() == "  input: of this kind");
  lines.feed("rank 0 step 4 head: note: a [optim-empty]\n  of the program\n");
  CHECK(lines.last_line() == "  of the program");
  LinePrefixer launcher("");
  launcher.feed("ddpscope: rank 1 failed first\nrank 0 step 4 a: error: b [grad-missing]\n");
  CHECK(launcher.last_line() == "ddpscope: rank 1 failed first");
}

TEST_CASE("an incomplete line becomes a line when it is flushed", "[tools]") {
  LinePrefixer lines("> ");
  CHECK(lines.feed("part") == "");
  CHECK(lines.flush() == "> part\n");
  CHECK(lines.flush() == "");
}

TEST_CASE("a lone carriage return ends a line and CRLF ends one line", "[tools]") {
  LinePrefixer lines("> ");
  CHECK(lines.feed("10%\r20%\r") == "> 10%\n> 20%\n");
  CHECK(lines.feed("\nx\r") == "> x\n");
  CHECK(lines.feed("\ny\n") == "> y\n");
}

TEST_CASE("a huge line is broken and none of its bytes is lost", "[tools]") {
  LinePrefixer lines("> ");
  const std::string huge(LinePrefixer::kMaxLineBytes + 5, 'x');
  CHECK(lines.feed(huge).size() == LinePrefixer::kMaxLineBytes + 3);
  CHECK(lines.feed("\n") == "> xxxxx\n");
  const std::string full(LinePrefixer::kMaxLineBytes, 'x');
  CHECK(lines.feed(full + "\n") == "> " + full + "\n");
}

TEST_CASE("bytes that are no text pass unchanged", "[tools]") {
  LinePrefixer lines("");
  CHECK(lines.feed("\0\xff\x1b[m\n"s) == "\0\xff\x1b[m\n"s);
}
