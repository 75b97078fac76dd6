#include "config/parser.h"

#include <string>

#include "config/setting_table.h"
#include "tests/support/catch.h"

using namespace ddpscope;  // NOLINT(google-build-using-namespace)

namespace {
const CheckIds kIds = {"numeric-nonfinite-forward", "module-unregistered", "perf-loader",
                       "perf-loader.limit", "module-unregistered.window_2"};

ParsedSettings parse(std::string_view text) { return parse_environment(text, kIds); }

std::string only_message(std::string_view text) {
  const auto parsed = parse(text);
  REQUIRE(parsed.problems.size() == 1);
  return parsed.problems[0].message;
}

struct Refused {
  std::string text;
  std::string message;
};
}  // namespace

TEST_CASE("off words switch off in any case and among pairs", "[config]") {
  for (const std::string text : {"0", "off", "false", "no", "OFF", " 0\n", "1:level=watch:no"}) {
    INFO(text);
    CHECK(parse(text).off);
    CHECK(parse(text).problems.empty());
  }
  CHECK_FALSE(parse("exit_code=0").off);
  CHECK_FALSE(parse("level=off").off);
}

TEST_CASE("on words say something and set nothing", "[config]") {
  for (const std::string text : {"1", "on", "true", "yes", "Yes"}) {
    const auto parsed = parse(text);
    INFO(text);
    CHECK(parsed.says_something);
    CHECK_FALSE(parsed.off);
    CHECK(parsed.problems.empty());
  }
  CHECK_FALSE(parse("").says_something);
  CHECK_FALSE(parse(" :: ").says_something);
}

TEST_CASE("pairs are joined by colons and a literal colon is escaped", "[config]") {
  const auto parsed = parse(R"(level=stacks:report_dir=C\:/out\a: exchange_every = 4 :)");
  CHECK(parsed.problems.empty());
  CHECK(parsed.settings.level == Level::kStacks);
  CHECK(parsed.settings.report_dir == R"(C:/out\a)");
  CHECK(parsed.settings.exchange_every == 4);
  CHECK_FALSE(parsed.settings.console.has_value());
}

TEST_CASE("the last of two equal keys counts and values may hold equal signs", "[config]") {
  const auto parsed = parse("history=16:history=32:declare=head.*=sharded,a=b=external");
  CHECK(parsed.problems.empty());
  CHECK(parsed.settings.history == 32);
  CHECK(parsed.settings.declare == "head.*=sharded,a=b=external");
}

TEST_CASE("a wrong entry is named in one line with the way out", "[config]") {
  const Refused cases[] = {
      {"chekcs=*", R"(DDPSCOPE: unknown key "chekcs" (value "*"); did you mean "checks"? )"
                   R"(Its value is a comma-separated list of globs of check ids)"},
      {"LEVEL=watch", R"(DDPSCOPE: unknown key "LEVEL" (value "watch"); did you mean "level"? )"
                      R"(Its value is one of watch|values|stacks)"},
      {"hlep=1",
       R"(DDPSCOPE: unknown key "hlep" (value "1"); did you mean "help"? Its value is 0 or 1)"},
      {"exchange_every=10s",
       R"(DDPSCOPE: exchange_every="10s" is not a whole number of steps >= 1 (default 16))"},
      {"level=stack",
       R"(DDPSCOPE: level="stack" is not one of watch|values|stacks (default values))"},
      {"level=watch,console=brief",
       R"(DDPSCOPE: level="watch,console=brief" is not one of watch|values|stacks )"
       R"((default values); pairs are joined by ":")"},
      {"console=brief; level=watch",
       R"(DDPSCOPE: console="brief; level=watch" is not one of auto|quiet|brief|full )"
       R"((default auto); pairs are joined by ":")"},
      {"=5", R"(DDPSCOPE: "=5" is not key=value)"},
      {"level", R"(DDPSCOPE: "level" is not key=value; level is one of watch|values|stacks)"},
      {"levle", R"(DDPSCOPE: "levle" is not key=value; did you mean "level"? )"
                R"(Its value is one of watch|values|stacks)"},
      {"report_dir=", R"(DDPSCOPE: report_dir="" is not a path of at least one character )"
                      R"((default ddpscope-report))"},
      {"declare=a=extern",
       R"(DDPSCOPE: declare="a=extern" is not a comma-separated list of glob=kind, or nothing; )"
       R"(a kind is one of external|rank_local|sharded|shared_data|not_averaged|intended )"
       R"((default none))"},
      {"sync_batch_norm=yes", R"(DDPSCOPE: sync_batch_norm="yes" is not 0 or 1 (default 0))"},
      {"help=2", R"(DDPSCOPE: help="2" is not 0 or 1)"},
      {"checks=module-unregisterd", R"(DDPSCOPE: checks="module-unregisterd": )"
                                    R"("module-unregisterd" matches no check; )"
                                    R"(did you mean "module-unregistered"?)"},
      {"checks=*,perff-*", R"(DDPSCOPE: checks="*,perff-*": "perff-*" matches no check; )"
                           R"(ids begin with numeric-, module-, perf-)"},
      {"checks=-perf-loder", R"(DDPSCOPE: checks="-perf-loder": "perf-loder" matches no check; )"
                             R"(did you mean "perf-loader"?)"},
      {"perf-loder.limit=1", R"(DDPSCOPE: unknown check in key "perf-loder.limit" (value "1"); )"
                             R"(did you mean "perf-loader.limit"?)"},
      {"perf-loder.other=1", R"(DDPSCOPE: unknown check in key "perf-loder.other" (value "1"); )"
                             R"(did you mean "perf-loader"?)"},
      {"perf-loader.limits=1", R"(DDPSCOPE: unknown option in key "perf-loader.limits" )"
                               R"((value "1"); did you mean "perf-loader.limit"?)"},
      {"numeric-nonfinite-forward.x=1",
       R"(DDPSCOPE: unknown option in key "numeric-nonfinite-forward.x" (value "1"); )"
       R"(numeric-nonfinite-forward has no options)"},
      {"perf-loader.everything_else=1",
       R"(DDPSCOPE: unknown option in key "perf-loader.everything_else" (value "1"); )"
       R"(options of perf-loader are limit)"},
      {"perf-loader.=1", R"(DDPSCOPE: "perf-loader." is not <check id>.<option>)"},
      {"perf-loader.a.b=1", R"(DDPSCOPE: "perf-loader.a.b" is not <check id>.<option>)"},
      {".limit=1", R"(DDPSCOPE: unknown check in key ".limit" (value "1"); )"
                   R"(ids begin with numeric-, module-, perf-)"},
  };
  for (const auto& refused : cases) {
    INFO(refused.text);
    CHECK(only_message(refused.text) == refused.message);
    CHECK_FALSE(parse(refused.text).problems[0].fix.empty());
  }
}

TEST_CASE("a problem holds its parts for programs", "[config]") {
  const auto unknown = parse("chekcs=*").problems.at(0);
  CHECK(unknown.place == "DDPSCOPE");
  CHECK(unknown.key == "chekcs");
  CHECK(unknown.value == "*");
  CHECK(unknown.nearest_key == "checks");
  CHECK(unknown.fix == "correct the key; all keys: DDPSCOPE=help=1");
  CHECK(parse("verbose=1")
            .problems.at(0)
            .message.starts_with(
                R"(DDPSCOPE: unknown key "verbose" (value "1"); keys are help, level, checks, )"));
  const auto bad = parse("fail_on=fatal").problems.at(0);
  CHECK(bad.allowed == "one of error|warning|note");
  CHECK(bad.fix == "correct the value; all keys: DDPSCOPE=help=1");
}

TEST_CASE("numbers out of their range are refused", "[config]") {
  for (const std::string text : {"exit_code=256",
                                 "exit_code=-1",
                                 "exit_code=+1",
                                 "exit_code=",
                                 "exit_code=0x10",
                                 "history=15",
                                 "history=99999999999999999999",
                                 "max_report_mb=0",
                                 "max_report_mb=1048577",
                                 "stack_depth=257",
                                 "exchange_every=0",
                                 "exchange_timeout_ms=0",
                                 "hang_after_s=1.5",
                                 "overhead=nan",
                                 "overhead=inf",
                                 "overhead=-nan",
                                 "overhead=1e999",
                                 "overhead=-0.1",
                                 "overhead=1000.1",
                                 "overhead=2%",
                                 "overhead=2,5",
                                 "exchange_timeout_ms=86400001"}) {
    INFO(text);
    CHECK(parse(text).problems.size() == 1);
  }
  for (const std::string text :
       {"exit_code=0", "exit_code=255", "history=16", "history=16777216", "overhead=0",
        "overhead=1000", "exchange_every=9223372036854775807", "exchange_timeout_ms=86400000"}) {
    INFO(text);
    CHECK(parse(text).problems.empty());
  }
}

TEST_CASE("hostile text is refused in short printable lines", "[config]") {
  const std::string long_value(200000, 'x');
  const auto too_long = only_message("report_dir=" + long_value);
  CHECK(too_long.size() < 200);
  CHECK(too_long.find("(200000 bytes) is not text of at most 16384 bytes") != std::string::npos);
  CHECK(only_message("report_dir=a\x1b[31m\xc2\x9b\"\\") ==
        R"(DDPSCOPE: report_dir="a\x1b[31m\xc2\x9b\"\\" is not text without control characters)");
  CHECK(only_message(std::string("level\0=watch", 12)) ==
        R"(DDPSCOPE: unknown key "level\x00" (value "watch"); did you mean "level"? )"
        R"(Its value is one of watch|values|stacks)");
  CHECK(only_message(long_value + "=1").size() < 500);
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "bad:";
  CHECK(parse(many).problems.size() == kMaxProblems);
  CHECK(parse("report_dir=\xc3\xbc").settings.report_dir == "\xc3\xbc");
}

TEST_CASE("options of known checks are kept as text", "[config]") {
  const auto parsed = parse("perf-loader.limit=a=b:module-unregistered.window_2=4");
  CHECK(parsed.problems.empty());
  CHECK(parsed.settings.check_options.at("perf-loader.limit") == "a=b");
  CHECK(parsed.settings.check_options.at("module-unregistered.window_2") == "4");
  CHECK(parse("perf-loader.limit=a\tb").problems.size() == 1);
}

TEST_CASE("globs of checks are accepted where they name checks", "[config]") {
  for (const std::string text :
       {"checks=*", "checks=*,-perf-*", "checks=-none-yet-*", "checks=numeric-*, perf-loader"}) {
    INFO(text);
    CHECK(parse(text).problems.empty());
  }
  for (const std::string text : {"checks=", "checks=,", "checks=*,-"}) {
    INFO(text);
    CHECK(parse(text).problems.size() == 1);
  }
}

TEST_CASE("help is requested and the rest still counts", "[config]") {
  const auto parsed = parse("help=1:level=watch");
  CHECK(parsed.help_requested);
  CHECK(parsed.settings.level == Level::kWatch);
  CHECK_FALSE(parse("help=0").help_requested);
  for (const auto& row : setting_table()) {
    INFO(row.key);
    CHECK(settings_help().find("  " + std::string(row.key) + ": " + std::string(row.allowed)) !=
          std::string::npos);
    CHECK(settings_help().find(std::string(row.help)) != std::string::npos);
  }
}
