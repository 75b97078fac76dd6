// Ranks that stop, are killed, or leave no records, and what a merge says of them.
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <thread>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::lost_ranks_test {
namespace {
constexpr int kStepsOfLost = 3;

/// What rank 1 does with its attach, and before and in its fourth step.
struct Lost {
  std::function<void()> before_attach = [] {};
  bool attaches = true;
  bool has_own_folder = false;
  bool averages_it = true;
  std::function<void()> before_step = [] {};
};

std::function<int(const Place&)> program(const Lost& lost, int hang_after_s = 5,
                                         int exchange_timeout_ms = 5000) {
  return [lost, hang_after_s, exchange_timeout_ms](const Place& place) {
    const bool is_lost = place.rank == 1;
    const Group group = place.group();
    Net net;
    torch::manual_seed(static_cast<std::uint64_t>(place.rank));  // data of its own
    Options options = quiet();
    options.hang_after_s = hang_after_s;
    options.exchange_timeout_ms = exchange_timeout_ms;
    if (lost.has_own_folder) options.report_dir = report_dir() + "/%r";
    if (is_lost) lost.before_attach();
    if (!is_lost || lost.attaches) attach_diagnostics(net, options);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    for (int step = 0; step < 10; ++step) {
      if (is_lost && step == kStepsOfLost) lost.before_step();
      optimizer.zero_grad();
      net->loss().backward();
      for (const at::Tensor& parameter : net->parameters()) {
        if (is_lost && step == kStepsOfLost && !lost.averages_it) break;
        all_reduce(group, parameter.grad());
        parameter.grad().div_(place.ranks);
      }
      optimizer.step();
    }
    return 0;
  };
}

bool is_found_live(const std::string& id, const std::string& words) {
  for (const std::string& line : records("finding")) {
    const bool is_it = line.find("\"" + id + "\"") != std::string::npos;
    if (is_it && line.find(words) != std::string::npos) return true;
  }
  return false;
}

void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 1000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}
}  // namespace

TEST_CASE("A rank that was stopped has no heartbeat, and is named while the others wait") {
  {
    Ranks ranks(3, program({.before_step = [] { ::raise(SIGSTOP); }}));
    wait_until([] { return is_found_live("collective-hang", "no heartbeat"); });
    CHECK(is_found_live("collective-hang", "no heartbeat"));
  }
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.code == 1);
  CHECK(merged.says("rank 1 step 4 first (all_reduce): error: ranks 0,2 wait"));
  CHECK(merged.says("(no heartbeat) [collective-hang]"));
}

TEST_CASE("Ranks train beside one that has no ddpscope, and the merge says whose records lack") {
  Ranks ranks(3, program({.attaches = false}));
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.code == 4);
  CHECK(merged.says("[tool-rank-missing]"));
  CHECK(merged.says("0 errors, 1 warning,"));
}

TEST_CASE("That a rank has no ddpscope is told while the others train, and once by the merge") {
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::seconds(4)); };
  Ranks ranks(3,
              program({.attaches = false, .before_step = wait}, 60, /*exchange_timeout_ms=*/500));
  wait_until(
      [] { return is_found_live("tool-rank-missing", "rank 1 sent no record within 500 ms"); });
  CHECK(is_found_live("tool-rank-missing", "comparing 2 of 3 ranks"));
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("rank 1 left no record"));
  CHECK_FALSE(merged.says("rank 1 sent no record"));
  CHECK(merged.says("0 errors, 1 warning,"));
}

TEST_CASE("A rank whose folder is its own does not know that others lack ddpscope") {
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::seconds(3)); };
  Ranks ranks(2, program({.attaches = false, .has_own_folder = true, .before_step = wait}, 60,
                         /*exchange_timeout_ms=*/300));
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const std::string own = report_dir() + "/0";
  CHECK(records("step", own).size() == 10);
  for (const std::string& line : records("finding", own)) {
    CHECK(line.find("tool-rank-missing") == std::string::npos);
  }
}

TEST_CASE("A rank that waits for one without ddpscope says that it has no records of it") {
  {
    Ranks ranks(2,
                program({.attaches = false,
                         .before_step = [] { std::this_thread::sleep_for(std::chrono::hours(1)); }},
                        /*hang_after_s=*/1));
    wait_until([] { return is_found_live("collective-hang", "rank 1"); });
    CHECK(is_found_live("collective-hang", "rank 1"));
  }
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.code == 1);
  CHECK(merged.says("rank 1 left no records [collective-hang]"));
  CHECK(merged.says("led to: "));
}

TEST_CASE("A rank that may write no file leaves a report of the others, and trains on") {
  const auto limit = [] {
    const rlimit none{.rlim_cur = 6000, .rlim_max = 6000};
    ::setrlimit(RLIMIT_FSIZE, &none);
  };
  Ranks ranks(2, program({.before_attach = limit}));
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.code == 0);
  CHECK(merged.says("could write no more"));
  CHECK(read_ring(ring_path(0)).calls.size() == 40);
  CHECK_FALSE(read_ring(ring_path(1)).error.empty());
}

TEST_CASE("A killed rank is named as the first to fail") {
  Ranks ranks(3, program({.before_step = [] { ::raise(SIGKILL); }}));
  ranks.exit_codes();
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.code == 1);
  CHECK(merged.says("[rank-first-failure]"));
  CHECK(merged.says("rank 1 failed first"));
}

TEST_CASE("A step that one rank did not average explains that the others wait at the end") {
  {
    Ranks ranks(2, program({.averages_it = false}));
    ranks.exit_codes();
  }
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("ranks 0-1 step 4 "));
  CHECK(merged.says("rank 1 issued no collective in that step, and others up to 4"));
  CHECK(merged.says("led to: rank 1 step 10 first (all_reduce): error: rank 0 waited"));
  CHECK(merged.says("primary grad-not-reduced"));
}

}  // namespace ddpscope::test::lost_ranks_test
