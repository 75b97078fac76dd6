#include "tests/support/torch_test.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_dir.h"

namespace ddpscope::test {
namespace {
using Lines = std::vector<std::string>;

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += word.empty() ? "-" : word;
  }
  return line;
}

Lines lines_now() {
  Lines lines;
  for (const Finding& f : findings()) {
    if (f.severity == "note") continue;
    lines.push_back(
        joined({f.id, f.severity, f.module_path, f.subject, text_fact(f, "cause"), f.op}));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// A finding is written again when it changes: the last line of a fingerprint counts.
Lines lines_on_disk(const std::string& dir) {
  std::map<std::string, std::string> latest;
  for (const std::string& record : records("finding", dir)) {
    const auto f = nlohmann::json::parse(record);
    if (f.at("severity") == "note") continue;
    latest[f.at("fingerprint")] =
        joined({f.at("id"), f.at("severity"), f.at("module_path"), f.at("subject"),
                f.at("facts").value("cause", ""), f.at("op")});
  }
  Lines lines;
  for (const auto& [fingerprint, line] : latest) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// tests/support/run_preloaded.sh gives one.
std::string folder_of(const TemporaryDir& dir) {
  const char* const given = std::getenv("DDPSCOPE_TEST_REPORT");
  return given == nullptr ? dir.path() : given;
}

// Made before the first attach, so that it is destroyed after ddpscope has written its last line.
struct Process {
  TemporaryDir dir;
  std::string report_dir = folder_of(dir);
  pid_t owner = getpid();
  bool compares_at_exit = false;
  Lines expected;

  ~Process() {
    if (!compares_at_exit || getpid() != owner) return;
    const Lines found = lines_on_disk(report_dir);
    if (found == expected && records("summary", report_dir).size() == 1) return;
    std::fputs("at exit the rank file holds other findings, or no summary:\n", stderr);
    for (const std::string& line : found) std::fprintf(stderr, "  %s\n", line.c_str());
    std::fflush(nullptr);
    _exit(1);
  }
};

Process& process() {
  static Process made;
  return made;
}

// Before any use of LibTorch, which may start a preloaded session.
[[maybe_unused]] const Process& made_first = process();

std::string read_all(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(file, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}
}  // namespace

const std::string& report_dir() { return process().report_dir; }

Options quiet() { return {.report_dir = report_dir(), .console = "quiet"}; }

std::vector<std::string> records(std::string_view kind, const std::string& dir) {
  std::vector<std::string> found;
  std::ifstream file(dir + "/rank-0.jsonl");
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // it is being written
    if (nlohmann::json::parse(line).at("record") == kind) found.push_back(line);
  }
  return found;
}

std::string text_fact(const Finding& finding, const std::string& key) {
  const auto fact = finding.facts.find(key);
  if (fact == finding.facts.end()) return "";
  const auto* text = std::get_if<std::string>(&fact->second);
  return text == nullptr ? "" : *text;
}

const Finding* find(const std::vector<Finding>& findings, const std::string& id) {
  for (const Finding& finding : findings) {
    if (finding.id == id) return &finding;
  }
  return nullptr;
}

const Finding& only(const std::vector<Finding>& all, const std::string& id) {
  const Finding* found = find(all, id);
  REQUIRE(found != nullptr);
  return *found;
}

void check_findings(std::vector<std::string> expected) {
  std::sort(expected.begin(), expected.end());
  CHECK(lines_now() == expected);
  expect_at_exit(std::move(expected));
}

void expect_at_exit(std::vector<std::string> expected) {
  std::sort(expected.begin(), expected.end());
  process().expected = std::move(expected);
  process().compares_at_exit = true;
}

void check_silent(std::size_t models, std::size_t steps) {
  check_findings({});
  const Report report = flush();
  CHECK(report.errors == 0);
  CHECK(report.warnings == 0);
  CHECK(records("model").size() >= models);
  CHECK(records("step").size() >= steps);
}

Outcome in_child(const std::function<int()>& program) {
  report_dir();  // of this process, which reads it afterwards
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    std::exit(program());
  }
  close(ends[1]);
  Outcome outcome;
  outcome.said = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

void train(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& loss, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  }
}

void train_by_closure(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& loss,
                      int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const at::Tensor value = loss();
      value.backward();
      return value;
    });
  }
}

}  // namespace ddpscope::test
