// Names that nobody should give to a module, from the program to every report.
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_dir.h"
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;

// `idle` is called as `name` says and gets no gradient: one finding that names it.
struct Named : torch::nn::Module {
  explicit Named(const std::string& name) : idle(register_module(name, Linear(8, 4))) {}
  at::Tensor loss() { return body(torch::randn({5, 8})).square().mean(); }
  Linear body = register_module("body", Linear(8, 8));
  Linear idle;
};

std::vector<std::string> hostile_names() {
  return {"</script><img src=x onerror=\"alert('1')\">&amp;",
          "line\nbreak\r\n\ttab",
          "\x1b[31mred\x1b]0;title\x07\x9b\x31m\x7f",
          "\xff\xfe not \xe2\x80 text \xed\xa0\x80 \xc0\xaf",
          "\xe2\x80\xae right to left \xef\xbb\xbf \xc2\x85 \xe2\x80\xa8",
          std::string(10'000, 'N'),
          "%s%n{}{0}${HOME}`id`$(id);|\\",
          "ends in a backslash and a quote \\\"",
          std::string("zero\0byte", 9),
          " "};
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_utf8(const std::string& text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// Nothing that a terminal obeys, and no byte that is no text.
bool is_plain(const std::string& text) {
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((byte < 0x20 && letter != '\n') || byte == 0x7f) return false;
  }
  for (const char* bad : {"\xe2\x80\xae", "\xc2\x85", "\xc2\x9b", "\xe2\x80\xa8"}) {
    if (text.find(bad) != std::string::npos) return false;
  }
  return is_utf8(text);
}

void check_files(const std::string& dir) {
  const auto found = records("finding", dir);
  CHECK(found.size() >= 1);
  CHECK(records("summary", dir).size() == 1);
  CHECK(is_utf8(text_of(dir + "/rank-0.jsonl")));
  const std::string page = text_of(dir + "/report.html");
  CHECK(!page.empty());
  CHECK(page.find("<img") == std::string::npos);
  CHECK(is_plain(page));
}

void check_tool(const std::string& dir) {
  for (const std::string command : {"merge", "show"}) {
    const std::string printed = dir + "/printed";
    const std::string line = "env -u LD_PRELOAD '" DDPSCOPE_TOOL "' " + command + " '" + dir +
                             "' > '" + printed + "' 2>&1";
    const int status = std::system(line.c_str());
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) <= 1));
    CHECK(is_plain(text_of(printed)));
  }
  CHECK(nlohmann::json::parse(text_of(dir + "/report.json")).at("findings").size() >= 1);
}
}  // namespace

TEST_CASE("Hostile names reach every report as text") {
  const TemporaryDir parent;
  int count = 0;
  for (const std::string& name : hostile_names()) {
    INFO(name.substr(0, 40));
    const std::string dir = parent / std::to_string(++count);
    const Outcome outcome = in_child([&] {
      setenv("DDPSCOPE", ("console=full:report_dir=" + dir).c_str(), 1);
      Named net(name);
      attach_diagnostics(net).name(name);
      torch::optim::SGD optimizer(net.parameters(), 0.01);
      train(optimizer, [&] { return net.loss(); });
      return 0;
    });
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.said.find("[grad-missing]") != std::string::npos);
    CHECK(is_plain(outcome.said));
    check_files(dir);
    check_tool(dir);
  }
}

TEST_CASE("A name that is text comes back from the file as it was given") {
  const std::string name = "</b> \"quoted\" \n\x1b[0m größe";
  Named net(name);
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  flush();
  REQUIRE(records("finding").size() == 1);
  const auto finding = nlohmann::json::parse(records("finding")[0]);
  CHECK(finding.at("module_path") == name);
}

TEST_CASE("Hostile names of plain tensors reach every report as text") {
  const TemporaryDir dir;
  const Outcome outcome = in_child([&] {
    setenv("DDPSCOPE", ("console=full:report_dir=" + (dir / "o")).c_str(), 1);
    const at::Tensor used = torch::ones({8, 8}, torch::requires_grad());
    NamedTensors tensors = {{"used", used}, {"...", used}, {".", used}};
    for (const std::string& name : hostile_names()) {
      tensors.emplace_back(name + "." + name, torch::ones({4}, torch::requires_grad()));
    }
    attach_diagnostics(tensors);
    torch::optim::SGD optimizer({used, tensors[3].second}, 0.01);
    train(optimizer, [&] { return torch::randn({5, 8}).matmul(used).square().mean(); });
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(is_plain(outcome.said));
  check_files(dir / "o");
}

}  // namespace ddpscope::test
