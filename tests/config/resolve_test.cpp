#include "config/resolve.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "config/setting_table.h"
#include "tests/support/catch.h"

using namespace ddpscope;  // NOLINT(google-build-using-namespace)

namespace {
const CheckIds kIds = {"perf-loader", "perf-loader.a", "perf-loader.b"};

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() /
             ("ddpscope-resolve-test" + std::to_string(getpid())))
                .string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Resolved resolve_env(const std::optional<std::string>& env, const PartialSettings& options = {}) {
  return resolve(env, options, ActivatedBy::kProgram, kIds);
}
}  // namespace

TEST_CASE("an unset or empty variable leaves the choice to the caller", "[config]") {
  for (const std::optional<std::string>& env :
       {std::optional<std::string>(), std::optional<std::string>(""),
        std::optional<std::string>(":")}) {
    CHECK(resolve(env, {}, ActivatedBy::kProgram, kIds).state == ResolvedState::kOn);
    CHECK(resolve(env, {}, ActivatedBy::kEnvironment, kIds).state == ResolvedState::kDormant);
  }
  CHECK(resolve("1", {}, ActivatedBy::kEnvironment, kIds).state == ResolvedState::kOn);
}

TEST_CASE("the off word wins over options and over wrong entries", "[config]") {
  PartialSettings options;
  options.config_file = "/nonexistent";
  const auto resolved = resolve("off:chekcs=1", options, ActivatedBy::kProgram, kIds);
  CHECK(resolved.state == ResolvedState::kOff);
  CHECK(resolved.problems.empty());
}

TEST_CASE("defaults are those of the table", "[config]") {
  const auto resolved = resolve_env(std::nullopt);
  CHECK(resolved.settings.level == Level::kValues);
  CHECK(resolved.settings.checks == "*");
  CHECK(resolved.settings.report_dir == "ddpscope-report");
  CHECK(resolved.settings.max_report_mb == 256);
  CHECK(resolved.settings.halt_on == HaltOn::kNone);
  CHECK(resolved.settings.fail_on == Severity::kError);
  CHECK(resolved.settings.overhead == 2.0);
  CHECK(resolved.settings.history == 65536);
  CHECK(resolved.settings.exchange == Exchange::kAuto);
  CHECK(resolved.settings.hang_after_s == 120);
  CHECK_FALSE(resolved.settings.sync_batch_norm);
  CHECK(resolved.settings.log_level == LogLevel::kWarn);
  CHECK(resolved.settings.origins.size() == setting_table().size());
  CHECK(resolved.settings.origins.at("overhead").value == "2");
  CHECK(resolved.settings.origins.at("overhead").source == "default");
}

TEST_CASE("every default is a value that its own row accepts", "[config]") {
  for (const auto& row : setting_table()) {
    PartialSettings into;
    INFO(row.key);
    CHECK(row.assign(row.default_text, into));
    CHECK(row.text(into) == row.default_text);
  }
}

TEST_CASE("environment wins over options, options over the file, the file over defaults",
          "[config]") {
  const ConfigFile file(
      "level=watch\nhistory=100\nstack_depth=5\nperf-loader.a=f\nperf-loader.b=f\n");
  PartialSettings options;
  options.config_file = file.path();
  options.level = Level::kValues;
  options.history = 200;
  options.check_options["perf-loader.b"] = "o";
  const auto resolved = resolve_env("level=stacks", options);
  CHECK(resolved.problems.empty());
  CHECK(resolved.settings.level == Level::kStacks);
  CHECK(resolved.settings.history == 200);
  CHECK(resolved.settings.stack_depth == 5);
  CHECK(resolved.settings.origins.at("level").source == "environment");
  CHECK(resolved.settings.origins.at("level").value == "stacks");
  CHECK(resolved.settings.origins.at("history").source == "options");
  CHECK(resolved.settings.origins.at("stack_depth").source == "config_file");
  CHECK(resolved.settings.origins.at("console").source == "default");
  CHECK(resolved.settings.check_options.at("perf-loader.a") == "f");
  CHECK(resolved.settings.check_options.at("perf-loader.b") == "o");
  CHECK(resolved.settings.origins.at("perf-loader.b").source == "options");
}

TEST_CASE("the environment may name the config file or none", "[config]") {
  const ConfigFile file("level=watch:history\nhelp=1\n");
  PartialSettings options;
  options.config_file = "/nonexistent";
  const auto named = resolve_env("config_file=" + file.path(), options);
  REQUIRE(named.problems.size() == 1);
  CHECK(named.problems[0].message.find(file.path() + ":1: level=\"watch:history\"") == 0);
  CHECK(named.help_requested);
  CHECK(resolve_env("config_file=", options).problems.empty());
  const auto unreadable = resolve_env(std::nullopt, options);
  REQUIRE(unreadable.problems.size() == 1);
  CHECK(unreadable.problems[0].place == "Options");
}

TEST_CASE("options are held to the rules of the text", "[config]") {
  PartialSettings options;
  options.exchange_every = 0;
  options.overhead = std::numeric_limits<double>::quiet_NaN();
  options.level = static_cast<Level>(9);
  options.report_dir = "a\nb";
  options.stack_depth = 8;
  options.check_options = {{"level", "x"}, {"perf-loder.a", "1"}, {"perf-loader.a", "1"}};
  const auto resolved = resolve_env("1", options);
  std::vector<std::string> messages;
  for (const auto& problem : resolved.problems) messages.push_back(problem.message);
  CHECK(messages ==
        std::vector<std::string>{
            R"(Options: level="9" is not one of watch|values|stacks (default values))",
            R"(Options: report_dir="a\x0ab" is not text without control characters)",
            R"(Options: overhead="nan" is not a number of percent from 0 to 1000 (default 2))",
            R"(Options: exchange_every="0" is not a whole number of steps >= 1 (default 16))",
            R"(Options: "level." is not <check id>.<option>)",
            R"(Options: unknown check in key "perf-loder.a" (value "1"); )"
            R"(did you mean "perf-loader.a"?)"});
  CHECK(resolved.settings.exchange_every == 16);
  CHECK(resolved.settings.stack_depth == 8);
  CHECK(resolved.settings.check_options.size() == 1);
}

TEST_CASE("a suppressions file that cannot be read is told where it is named", "[config]") {
  const std::string text = R"(: suppressions="/nonexistent" is not a readable file: no such file)";
  const auto message = [](const std::string& env, const PartialSettings& options = {}) {
    const auto problems = resolve_env(env, options).problems;
    REQUIRE(problems.size() == 1);
    return problems[0].message;
  };
  PartialSettings options;
  options.suppressions = "/nonexistent";
  CHECK(message("suppressions=/nonexistent") == "DDPSCOPE" + text);
  CHECK(message("1", options) == "Options" + text);
  const ConfigFile file("suppressions=/nonexistent\n");
  CHECK(message("config_file=" + file.path()) == file.path() + text);
  const ConfigFile wrong("optim-empty\ngrad-*\n");
  CHECK(message("suppressions=" + wrong.path()).starts_with(wrong.path() + ":1: no reason"));
}

TEST_CASE("options are taken as they are, a config file among them", "[config]") {
  const ConfigFile file("level=watch\nhistory=100\n");
  const auto parsed = parse_option_texts(
      {{"config_file", file.path()}, {"history", "200"}, {"report_dir", R"(a\:b #c)"}}, kIds);
  CHECK(parsed.problems.empty());
  CHECK(parsed.settings.report_dir == R"(a\:b #c)");
  const auto resolved = resolve_env("", parsed.settings);
  CHECK(resolved.settings.origins.at("level").source == "config_file");
  CHECK(resolved.settings.history == 200);
}

TEST_CASE("what options ask of a running session and do not get is told", "[config]") {
  const Settings running = resolve_env("history=32:console=quiet").settings;
  PartialSettings options;
  CHECK(unused_options(running, options) == "");
  options.level = Level::kValues;  // as it is
  options.history = 64;            // the environment wins
  CHECK(unused_options(running, options) == "");
  options.report_dir = "b";
  options.check_options["perf-loader.a"] = "1";
  CHECK(unused_options(running, options) ==
        R"(perf-loader.a="1" (it has ""), report_dir="b" (it has "ddpscope-report"))");
}

TEST_CASE("help and right entries survive wrong ones", "[config]") {
  const auto resolved = resolve_env("help=1:chekcs=*:history=32");
  CHECK(resolved.state == ResolvedState::kOn);
  CHECK(resolved.help_requested);
  CHECK(resolved.settings.history == 32);
  CHECK(resolved.problems.size() == 1);
}

TEST_CASE("the report folder takes rank, pid and host", "[config]") {
  CHECK(expand_report_dir("out/%h/%r-%p", 3, 42, "node-1.x") == "out/node-1.x/3-42");
  CHECK(expand_report_dir("100%%r%x%", 3, 42, "n") == "100%r%x%");
  CHECK(expand_report_dir("%h", 0, 1, "../etc/passwd") == "_._etc_passwd");
  CHECK(expand_report_dir("%h", 0, 1, "%p") == "_p");
  CHECK(expand_report_dir("", 0, 1, "n").empty());
}

TEST_CASE("the overhead of a level is recorded where nothing else is said", "[config]") {
  const auto resolved = [](const std::string& variable) {
    return resolve(variable, {}, ActivatedBy::kEnvironment, kIds).settings;
  };
  CHECK(resolved("level=watch").overhead == 0.5);
  CHECK(resolved("level=watch").origins.at("overhead").value == "0.5");
  CHECK(resolved("level=watch").origins.at("overhead").source == "default");
  CHECK(resolved("level=values").overhead == 2);
  CHECK(resolved("level=stacks").overhead == 10);
  CHECK(resolved("level=stacks").origins.at("overhead").value == "10");
  CHECK(resolved("level=stacks:overhead=3").overhead == 3);
  CHECK(resolved("level=stacks:overhead=3").origins.at("overhead").source == "environment");
}
