#include "tools/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>

#include "tools/command.h"
#include "tools/launch_signals.h"
#include "tools/rank_process.h"
#include "tools/rank_streams.h"

namespace ddpscope {
namespace {
/// The clock that the ranks write down.
std::int64_t unix_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

struct Rank {
  pid_t pid;
  RankStreams streams;
  std::optional<std::int64_t> ended_ms = std::nullopt;
  bool abandoned = false;
  bool stopped = false;
};

/// One launch. An ended rank stays a zombie to the end, so that its process group keeps its number.
class Launcher {
 public:
  explicit Launcher(const LaunchPlan& plan) : plan_(plan) {}
  LaunchResult run();

 private:
  bool start_all();
  bool done() const;
  bool timed() const;
  void wait_for_events();
  void take_signals();
  void forward(int signal);
  void note_ends();
  void end_rank(std::size_t rank, const siginfo_t& info);
  void enforce_deadlines();
  void give_up_output();
  void signal_running(int signal);
  void stop_running(int signal);
  void clean_up();

  const LaunchPlan& plan_;
  LaunchSignals signals_;
  std::vector<Rank> ranks_;
  LaunchResult result_;
  std::int64_t start_ms_ = now_ms();
  std::optional<std::int64_t> terminate_at_;
  std::optional<std::int64_t> kill_at_;
  std::optional<std::int64_t> abandon_at_;
};

LaunchResult Launcher::run() {
  if (start_all()) {
    while (!done()) {
      wait_for_events();
      take_signals();
      note_ends();
      enforce_deadlines();
      give_up_output();
    }
  }
  clean_up();
  return std::move(result_);
}

bool Launcher::start_all() {
  ranks_.reserve(plan_.environments.size());
  result_.ranks.resize(plan_.environments.size());
  for (std::size_t rank = 0; rank < plan_.environments.size(); ++rank) {
    auto started = start_rank(plan_.argv, plan_.environments[rank], signals_.mask_before());
    if (started.error != 0) {
      result_.start_error = started.error;
      signal_running(SIGKILL);
      return false;
    }
    const auto pid = started.process.pid;
    ranks_.push_back({pid, RankStreams(rank, started.process, plan_.log_dir)});
  }
  return true;
}

bool Launcher::done() const {
  return std::ranges::all_of(ranks_, [](const Rank& rank) {
    return rank.abandoned || (rank.ended_ms && !rank.streams.open());
  });
}

/// Whether something must happen although nothing arrives.
bool Launcher::timed() const {
  return terminate_at_ || kill_at_ || abandon_at_ ||
         std::ranges::any_of(ranks_, [](const Rank& rank) {
           return rank.streams.holds_part() || (rank.ended_ms && rank.streams.open());
         });
}

void Launcher::wait_for_events() {
  std::vector<pollfd> polled = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  for (const auto& rank : ranks_) {
    for (std::size_t stream = 0; stream < RankStreams::kStreams; ++stream) {
      polled.push_back({.fd = rank.streams.fd(stream), .events = POLLIN, .revents = 0});
    }
  }
  constexpr int kTickMs = 50;
  if (::poll(polled.data(), polled.size(), timed() ? kTickMs : -1) < 0) return;
  for (std::size_t i = 1; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    ranks_[(i - 1) / RankStreams::kStreams].streams.read((i - 1) % RankStreams::kStreams);
  }
  for (auto& rank : ranks_) rank.streams.show_old_parts(plan_.times.part_ms);
}

void Launcher::take_signals() {
  for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
    if (signal != SIGCHLD) forward(signal);
  }
}

void Launcher::forward(int signal) {
  signal_running(signal);
  if (signal == SIGUSR1 || signal == SIGUSR2) return;
  if (!result_.first_failure && result_.ended_by == 0) result_.ended_by = signal;
  const bool again = kill_at_.has_value();
  const auto wait_ms = again ? plan_.times.terminate_ms : plan_.times.interrupted_ms;
  const auto kill_at = now_ms() + wait_ms;
  kill_at_ = again ? std::min(*kill_at_, kill_at) : kill_at;
  say(fmt::format("{} received and passed to the ranks; those left after {:.0f} s are killed",
                  signal_words(signal), static_cast<double>(*kill_at_ - now_ms()) / 1000.0));
}

void Launcher::note_ends() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].ended_ms) continue;
    siginfo_t info{};
    const auto pid = static_cast<id_t>(ranks_[rank].pid);
    if (::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
      end_rank(rank, info);
    }
  }
}

void Launcher::end_rank(std::size_t rank, const siginfo_t& info) {
  auto& end = result_.ranks[rank];
  ranks_[rank].ended_ms = now_ms();
  end.after_ms = *ranks_[rank].ended_ms - start_ms_;
  end.ended_unix_ns = unix_ns();
  end.stopped = ranks_[rank].stopped;
  (info.si_code == CLD_EXITED ? end.code : end.signal) = info.si_status;
  if (!end.failed() || result_.first_failure) return;
  result_.first_failure = rank;
  const auto* const how = result_.ended_by != 0 ? "ended" : "failed";
  if (ranks_.size() > 1) say(fmt::format("rank {} {}; the others are stopped", rank, how));
  terminate_at_ = now_ms() + plan_.times.settle_ms;
}

void Launcher::enforce_deadlines() {
  const auto now = now_ms();
  if (terminate_at_ && now >= *terminate_at_) {
    terminate_at_.reset();
    stop_running(SIGTERM);
    const auto kill_at = now + plan_.times.terminate_ms;
    kill_at_ = kill_at_ ? std::min(*kill_at_, kill_at) : kill_at;
  }
  if (kill_at_ && now >= *kill_at_) {
    kill_at_.reset();
    stop_running(SIGKILL);
    abandon_at_ = now + plan_.times.terminate_ms;
  }
  if (!abandon_at_ || now < *abandon_at_) return;
  abandon_at_.reset();
  for (auto& rank : ranks_) {
    if (rank.ended_ms) continue;
    rank.abandoned = true;
    say(fmt::format("process {} does not end although it was killed; not waiting for it",
                    rank.pid));
  }
}

/// A process that a rank started may outlive it with the rank's pipes.
void Launcher::give_up_output() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    auto& rank = ranks_[i];
    if (!rank.ended_ms || !rank.streams.open()) continue;
    if (now_ms() - *rank.ended_ms < plan_.times.output_ms) continue;
    say(
        fmt::format("rank {} ended, but a process that it started still holds its output; "
                    "not waiting for it",
                    i));
    rank.streams.close();
  }
}

void Launcher::signal_running(int signal) {
  for (const auto& rank : ranks_) {
    if (!rank.ended_ms) ::kill(-rank.pid, signal);
  }
}

/// What ends a rank from now on is our doing.
void Launcher::stop_running(int signal) {
  for (auto& rank : ranks_) rank.stopped |= !rank.ended_ms;
  signal_running(signal);
}

void Launcher::clean_up() {
  const bool stop_groups = result_.first_failure || result_.start_error != 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    result_.ranks[rank].last_error_line = ranks_[rank].streams.last_error_line();
    if (stop_groups) ::kill(-ranks_[rank].pid, SIGKILL);
    ::waitpid(ranks_[rank].pid, nullptr, ranks_[rank].abandoned ? WNOHANG : 0);
  }
}
}  // namespace

LaunchResult launch(const LaunchPlan& plan) { return Launcher(plan).run(); }

std::string describe_failure(std::size_t rank, const RankEnd& end) {
  const auto how = end.signal != 0 ? "killed by " + signal_words(end.signal)
                                   : fmt::format("exit code {}", end.code);
  return fmt::format("rank {} failed first: {} after {:.1f} s", rank, how,
                     static_cast<double>(end.after_ms) / 1000.0);
}

}  // namespace ddpscope
