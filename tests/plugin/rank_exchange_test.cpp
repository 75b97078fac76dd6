// Ranks exchange what they note while they train, and none of them depends on it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::rank_exchange_test {
namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kTraining = std::chrono::seconds(5);

std::string log_of(int rank) { return report_dir() + "/stderr-" + std::to_string(rank); }
std::string port_file() { return report_dir() + "/rank-0.port"; }

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What ddpscope itself said on stderr.
std::vector<std::string> lines_of(int rank) {
  std::vector<std::string> lines;
  std::ifstream file(log_of(rank));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("ddpscope: ")) lines.push_back(line);
  }
  return lines;
}

/// Without any collective, so that a rank can do without the others.
int train_alone(const Place& place) {
  if (std::freopen(log_of(place.rank).c_str(), "w", stderr) == nullptr) return 9;
  setenv("DDPSCOPE_RUN_ID", "alone", 1);
  Options options = quiet();
  options.exchange = "store";
  options.exchange_every = 1;
  options.exchange_timeout_ms = 1000;
  Net net;
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const auto end = Clock::now() + kTraining;
  while (Clock::now() < end) {
    train(
        optimizer, [&] { return net->loss(); }, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 0;
}

/// Of which every call throws what an operator could have thrown.
class BrokenStore final : public c10d::Store {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using Keys = std::vector<std::string>;
  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<BrokenStore>(); }
  void set(const std::string&, const Bytes&) override { fail(); }
  Bytes get(const std::string&) override { fail(); }
  std::int64_t add(const std::string&, std::int64_t) override { fail(); }
  bool deleteKey(const std::string&) override { fail(); }
  bool check(const Keys&) override { fail(); }
  std::int64_t getNumKeys() override { fail(); }
  void wait(const Keys&) override { fail(); }
  void wait(const Keys&, const std::chrono::milliseconds&) override { fail(); }

 private:
  [[noreturn]] static void fail() {
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two");
    std::abort();
  }
};

int train_with_broken_store(const Place& place) {
  set_exchange(c10::make_intrusive<BrokenStore>(), place.rank, place.ranks);
  const int code = train_alone(place);
  return find(findings(), "device-mismatch") == nullptr ? code : 3;
}

bool wait_for(const std::function<bool()>& condition) {
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

Options in_own_folder(const Place& place) {
  set_exchange(place.store, place.rank, place.ranks);
  Options options = quiet();
  options.report_dir = report_dir() + "/" + std::to_string(place.rank);
  return options;
}

Options over_own_port(const Place&) {
  Options options = quiet();
  options.exchange = "store";
  return options;
}

/// Rank 0 returns 0 where it was told of nothing, 7 where of its optimizer, else 8.
int train_with_rate(const Place& place, double rate, Options options) {
  setenv("DDPSCOPE_RUN_ID", "together", 1);
  const Group group = place.group();
  options.checks = "*,-data-loader-wait";  // it pauses
  Net net;
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(net->parameters(), rate);
  torch::manual_seed(place.rank);
  const auto end = Clock::now() + 2 * kTraining;
  const at::Tensor ends = torch::zeros({1});
  std::set<std::string> told;
  while (ends.item<float>() == 0) {
    optimizer.zero_grad();
    net->loss().backward();
    for (at::Tensor& parameter : net->parameters()) {
      all_reduce(group, parameter.grad());
      parameter.mutable_grad().div_(place.ranks);
    }
    optimizer.step();
    for (const Finding& finding : findings()) {
      if (finding.severity != "note") told.insert(finding.id);
    }
    if (place.rank == 0 && (!told.empty() || Clock::now() > end)) ends.fill_(1);
    all_reduce(group, ends);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (place.rank > 0 || told.empty()) return 0;
  return told.contains("rank-optimizer-differs") ? 7 : 8;
}

int train_with_rates(const Place& place) {
  return train_with_rate(place, place.rank == 0 ? 0.01 : 0.02, in_own_folder(place));
}
int train_with_rates_over_port(const Place& place) {
  return train_with_rate(place, place.rank == 0 ? 0.01 : 0.02, over_own_port(place));
}
int train_as_equals(const Place& place) {
  return train_with_rate(place, 0.01, in_own_folder(place));
}

void check_one_line(int rank, const std::string& part) {
  const auto lines = lines_of(rank);
  REQUIRE(lines.size() == 1);
  INFO(lines[0]);
  CHECK(lines[0].starts_with("ddpscope: warning: the exchange between ranks has ended: "));
  CHECK(lines[0].find(part) != std::string::npos);
  CHECK(lines[0].ends_with("training continues."));
}
}  // namespace

TEST_CASE("A difference between ranks with folders of their own is told while they train") {
  Ranks ranks(2, train_with_rates);
  CHECK(ranks.exit_codes() == std::vector<int>{7, 0});
}

TEST_CASE("A difference between ranks is told over a port of rank 0 while they train") {
  Ranks ranks(2, train_with_rates_over_port);
  CHECK(ranks.exit_codes() == std::vector<int>{7, 0});
}

TEST_CASE("Of equal ranks with folders of their own nothing is told while they train") {
  Ranks ranks(2, train_as_equals);
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
}

TEST_CASE("Ranks that exchange over a port of rank 0 say nothing and leave no file of it") {
  Ranks ranks(2, train_alone);
  CHECK(wait_for([] { return text_of(port_file()).starts_with("alone\n"); }));
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(lines_of(0).empty());
  CHECK(lines_of(1).empty());
  CHECK_FALSE(std::filesystem::exists(port_file()));
}

TEST_CASE("A rank goes on and ends in time when the one that serves the exchange is killed") {
  Ranks ranks(2, train_alone);
  REQUIRE(wait_for([] { return std::filesystem::exists(port_file()); }));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  ranks.kill(0);
  const auto begin = Clock::now();
  CHECK(ranks.exit_codes() == std::vector<int>{-1, 0});
  CHECK(Clock::now() - begin < kTraining + std::chrono::seconds(1));
  check_one_line(1, "");
}

TEST_CASE("A rank goes on and ends in time when the one that serves the exchange stands still") {
  Ranks ranks(2, train_alone);
  REQUIRE(wait_for([] { return std::filesystem::exists(port_file()); }));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  ranks.kill(0, SIGSTOP);
  const auto begin = Clock::now();
  REQUIRE(wait_for([] {
    std::ifstream file(report_dir() + "/rank-1.jsonl");
    std::string last;
    for (std::string line; std::getline(file, line);) last = line;
    return last.find("\"summary\"") != std::string::npos;
  }));
  ranks.kill(0);
  CHECK(ranks.exit_codes() == std::vector<int>{-1, 0});
  CHECK(Clock::now() - begin < kTraining + std::chrono::seconds(2));
  check_one_line(1, "its store did not answer within 1000 ms");
}

TEST_CASE("A published port at which nobody listens costs one line and no time") {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(taken, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  std::filesystem::create_directories(report_dir());
  std::ofstream(port_file()) << "alone\n" << ntohs(address.sin_port) << "\n";
  const auto begin = Clock::now();
  Ranks ranks(2, [](const Place& place) { return place.rank == 0 ? 0 : train_alone(place); });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(Clock::now() - begin < kTraining + std::chrono::seconds(3));
  check_one_line(1, "rank 0 is not reached: 127.0.0.1 port");
  close(taken);
}

TEST_CASE("What a store throws ends the exchange with one line, and is no error of the program") {
  Ranks ranks(2, train_with_broken_store);
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  check_one_line(0, "found at least two");
  check_one_line(1, "found at least two");
}

}  // namespace ddpscope::test::rank_exchange_test
