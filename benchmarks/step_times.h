#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace benchmarks {

inline double microseconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

/// Three clocks at one moment: wall, the training thread, all threads of the process.
struct Moment {
  double wall = microseconds(CLOCK_MONOTONIC);
  double thread_cpu = microseconds(CLOCK_THREAD_CPUTIME_ID);
  double process_cpu = microseconds(CLOCK_PROCESS_CPUTIME_ID);
};

/// The times of steps in microseconds, and how a run of steps is summed up.
class StepTimes {
 public:
  explicit StepTimes(std::size_t steps) { moments_.reserve(steps + 1); }

  /// Call once before the first step and after each.
  void mark() { moments_.emplace_back(); }
  std::size_t steps() const { return moments_.size() - 1; }

  /// One line: name, then medians and means per step over [from, to).
  void print(const char* name, std::size_t from, std::size_t to) const {
    std::printf(
        "%s wall_median %.3f wall_mean %.3f thread_median %.3f thread_mean %.3f "
        "process_mean %.3f\n",
        name, median(&Moment::wall, from, to), mean(&Moment::wall, from, to),
        median(&Moment::thread_cpu, from, to), mean(&Moment::thread_cpu, from, to),
        mean(&Moment::process_cpu, from, to));
  }

  /// One line: name, median and 99th percentile of the wall and of the thread's time.
  void print_tail(const char* name, std::size_t from, std::size_t to) const {
    print_tail(name, taken(&Moment::wall, from, to), taken(&Moment::thread_cpu, from, to));
  }

  /// Blocks of `length` steps alternate, the first without and the next with something: a line as
  /// of `print_tail` for each kind, and one of the pairs. First steps of blocks are left out.
  void print_turns(std::size_t from, std::size_t length) const {
    for (const bool with : {false, true}) {
      Durations wall, thread;
      for (std::size_t at = from + (with ? length : 0); at + length <= steps(); at += 2 * length) {
        std::ranges::copy(taken(&Moment::wall, at + 1, at + length), std::back_inserter(wall));
        std::ranges::copy(taken(&Moment::thread_cpu, at + 1, at + length),
                          std::back_inserter(thread));
      }
      print_tail(with ? "with" : "without", std::move(wall), std::move(thread));
    }
    print_pairs("pairs", from, length);
  }

  /// Blocks of `length` steps alternate, the first without and the next with something: one line of
  /// by how many percent the second of two takes longer, median and quartiles. The first step of a
  /// block is left out: it pays for the change.
  void print_pairs(const char* name, std::size_t from, std::size_t length) const {
    std::vector<double> extra;
    for (std::size_t at = from; at + 2 * length <= steps(); at += 2 * length) {
      const double without = mean(&Moment::wall, at + 1, at + length);
      const double with = mean(&Moment::wall, at + length + 1, at + 2 * length);
      extra.push_back(100 * (with / without - 1));
    }
    const auto pairs = static_cast<double>(extra.size());
    const double sum = std::accumulate(extra.begin(), extra.end(), 0.0);
    std::sort(extra.begin(), extra.end());
    const auto at = [&](std::size_t quarter) { return extra[(extra.size() - 1) * quarter / 4]; };
    std::printf("%s extra_percent %.3f lower %.3f upper %.3f mean %.3f pairs %zu\n", name, at(2),
                at(1), at(3), sum / pairs, extra.size());
  }

 private:
  using Durations = std::vector<double>;

  static void print_tail(const char* name, Durations wall, Durations thread) {
    std::printf("%s wall_p50 %.3f wall_p99 %.3f thread_p50 %.3f thread_p99 %.3f\n", name,
                quantile(wall, 0.5), quantile(wall, 0.99), quantile(thread, 0.5),
                quantile(thread, 0.99));
  }

  double mean(double Moment::*clock, std::size_t from, std::size_t to) const {
    return (moments_[to].*clock - moments_[from].*clock) / static_cast<double>(to - from);
  }

  double median(double Moment::*clock, std::size_t from, std::size_t to) const {
    Durations times = taken(clock, from, to);
    return quantile(times, 0.5);
  }

  Durations taken(double Moment::*clock, std::size_t from, std::size_t to) const {
    Durations times;
    for (std::size_t i = from; i < to; ++i) {
      times.push_back(moments_[i + 1].*clock - moments_[i].*clock);
    }
    return times;
  }

  static double quantile(Durations& times, double share) {
    const auto place =
        times.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(times.size()));
    std::nth_element(times.begin(), place, times.end());
    return *place;
  }

  std::vector<Moment> moments_;
};

}  // namespace benchmarks
