// Values of the variable `DDPSCOPE` that nobody should set: an attached program is told before it
// trains, a preloaded one in one line, and trains on.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/plugin/twin_runs.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test {
namespace {
#ifdef DDPSCOPE_TEST_PRELOADED
constexpr bool kPreloaded = true;
#else
constexpr bool kPreloaded = false;
#endif

bool is_printable_line(const std::string& text) {
  return !text.empty() && std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n' &&
         std::all_of(text.begin(), text.end() - 1,
                     [](char letter) { return letter >= ' ' && letter <= '~'; });
}

// Refused before the first step where it is attached; what is said is on stderr either way.
int train_under(const std::string& value) {
  setenv("DDPSCOPE", value.c_str(), 1);
  Net net;
  int refused = 0;
  try {
    attach_diagnostics(net);
  } catch (const SettingsError& error) {
    refused = 1;
    const std::string text = error.what();
    std::fprintf(stderr, "%s\n", text.substr(0, text.find('\n')).c_str());
  }
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  return refused;
}

std::vector<std::string> hostile_values() {
  const std::string fifo = report_dir() + ".fifo";
  mkfifo(fifo.c_str(), 0600);
  std::vector<std::string> values = {"repot_dir=x",
                                     "level",
                                     "=",
                                     "=x",
                                     "level=",
                                     "level=everything",
                                     "loss-target-range.strict=perhaps",
                                     "level=\x1b[31mred\x1b[0m",
                                     "level=watch\nlevel=stacks",
                                     "\xff\xfe=\x80",
                                     "checks=no-such-check",
                                     "report_dir=",
                                     "report_dir=a\nb",
                                     "history=99999999999999999999999",
                                     "max_report_mb=9223372036854775807",
                                     "max_report_mb=-1",
                                     "overhead=nan",
                                     "overhead=1e999",
                                     "exit_code=256",
                                     "config_file=/nonexistent/file",
                                     "config_file=/dev/zero",
                                     "config_file=/proc/self/mem",
                                     "config_file=/",
                                     "config_file=" + fifo,
                                     "suppressions=" + fifo,
                                     "suppressions=/dev/zero",
                                     "1:level=%n%n%s%s"};
  for (const char letter : {'A', ':', '='}) {
    std::string& value = values.emplace_back("level=x");
    value.append(100'000, letter);
  }
  return values;
}
}  // namespace

TEST_CASE("Hostile settings cost one printable line and nothing else") {
  for (const std::string& value : hostile_values()) {
    INFO(value.substr(0, 60));
    const Outcome outcome = in_child([&] { return train_under(value); });
    CHECK(outcome.exit_code == (kPreloaded ? 0 : 1));
    CHECK(is_printable_line(outcome.said));
    const bool tells_to_go_on = outcome.said.find("continues undiagnosed") != std::string::npos;
    CHECK(tells_to_go_on == kPreloaded);
  }
  unlink((report_dir() + ".fifo").c_str());
}

TEST_CASE("Odd settings that mean something start") {
  for (const std::string value : {":::", "::1::", " on ", "1:console=quiet", "console=quiet:"}) {
    INFO(value);
    const std::string rest = ":console=quiet:report_dir=" + report_dir();
    const Outcome outcome = in_child([&] { return train_under(value + rest); });
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.said == "");
    CHECK(records("summary").size() == 1);
  }
}

TEST_CASE("A declaration that covers nothing is told at the end") {
  const std::string rest = "console=quiet:report_dir=" + report_dir();
  const std::string globs = "declare=fist.*=rank_local,second=rank_local,*.bias=intended:";
  const Outcome outcome = in_child([&] { return train_under(globs + rest); });
  CHECK(outcome.exit_code == 0);
  CHECK(is_printable_line(outcome.said));
  CHECK(outcome.said.find("declare: fist.*=rank_local covers no module") != std::string::npos);
}

TEST_CASE("A relative folder begins where a model is attached, or the program was started") {
  const TemporaryDir dir;
  const std::filesystem::path began = std::filesystem::current_path();
  const std::string name = "report-of-" + std::to_string(getpid());
  const Outcome outcome = in_child([&] {
    if (chdir(dir.path().c_str()) != 0) return 9;
    return train_under("console=quiet:report_dir=" + name);
  });
  CHECK(outcome.exit_code == 0);
  const std::string report = (kPreloaded ? began : std::filesystem::path(dir.path())) / name;
  CHECK(records("summary", report).size() == 1);
  std::filesystem::remove_all(report);
}

}  // namespace ddpscope::test
