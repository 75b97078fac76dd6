#pragma once

#include "ops/batch_norm/cpu/lanes.h"

namespace ddpscope::batch_norm {

inline constexpr int kBlockRows = 16;  // values of a lane that are measured at once
inline constexpr int kRunRows = 64;    // of a lane before float is folded into double
inline constexpr int kBlock = kBlockRows * kLanes;

/// Means and sums of squared differences of `Count` channels, or lanes of one channel, that have
/// the same number of values. `Number` sums a short run, double all of it.
template <class Processor, class Value, int Count>
class MomentSums {
 public:
  /// Of which the first `used` are added to.
  explicit MomentSums(int used = Count) : used_(used) {}

  using In = Memory<Processor, Value>;
  using Number = typename In::Number;
  using Vector = typename In::Vector;

  /// Merges a block of `rows` rows of sixteen channels or lanes, of which `row(i)` says where each
  /// lies: measured in two passes, then merged as Chan, Golub and LeVeque do. `Fixed` is `rows`
  /// where the compiler may know it. A function and no stride: with that as a number, planes of 7x7
  /// take twice as long.
  template <int Fixed = 0, class Row>
  void add(int at, Row row, int rows) {
    if constexpr (Fixed != 0) rows = Fixed;
    const Vector share = Vector::all(Number{1} / static_cast<Number>(rows));
    if (rows_ == 0 && run_rows_ == 0) {
      (sum_of<Fixed>(row, rows, Vector::all(0)) * share).store(base_ + at);
    }
    const Vector base = Vector::load(base_ + at);
    const Vector block_mean = sum_of<Fixed>(row, rows, base) * share;
    Vector sum[4] = {Vector::all(0), Vector::all(0), Vector::all(0), Vector::all(0)};
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Vector rest = (In::load(row(i)) - base) - block_mean;
      sum[i & 3] = sum[i & 3] + rest * rest;
    }
    const Vector mean = Vector::load(run_mean_ + at);
    const Vector shift = block_mean - mean;
    const Number weight = static_cast<Number>(rows) / static_cast<Number>(run_rows_ + rows);
    const Vector between = shift * shift * Vector::all(static_cast<Number>(run_rows_) * weight);
    (Vector::load(run_m2_ + at) + (total(sum) + between)).store(run_m2_ + at);
    (mean + shift * Vector::all(weight)).store(run_mean_ + at);
  }

  /// After every lane has got `rows` rows by `add`.
  void end_block(int rows) {
    run_rows_ += rows;
    if (run_rows_ >= kRunRows) fold();
  }

  void fold() {
    if (run_rows_ == 0) return;
    const double weight = run_rows_ / (rows_ + run_rows_);
    const double between = rows_ * weight;
    const int used = Count == kLanes ? Count : used_;
    for (int i = 0; i < used; ++i) {
      const double run_mean = static_cast<double>(base_[i]) + static_cast<double>(run_mean_[i]);
      const double shift = run_mean - mean[i];
      mean[i] += shift * weight;
      m2[i] += static_cast<double>(run_m2_[i]) + shift * shift * between;
      base_[i] = static_cast<Number>(mean[i]);
      run_mean_[i] = run_m2_[i] = 0;
    }
    rows_ += run_rows_;
    run_rows_ = 0;
  }

  double rows() const { return rows_; }

  double mean[Count] = {};
  double m2[Count] = {};

 private:
  template <int Fixed, class Row>
  static Vector sum_of(Row row, int rows, const Vector& base) {
    if constexpr (Fixed != 0) rows = Fixed;
    Vector sum[4] = {Vector::all(0), Vector::all(0), Vector::all(0), Vector::all(0)};
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) sum[i & 3] = sum[i & 3] + (In::load(row(i)) - base);
    return total(sum);
  }
  static Vector total(const Vector (&sum)[4]) { return (sum[0] + sum[1]) + (sum[2] + sum[3]); }

  int used_;
  double rows_ = 0;
  int run_rows_ = 0;
  // Where all values are far from zero, a mean in `Number` lacks digits: it is counted from a base
  // near it, from which the values differ exactly.
  alignas(64) Number base_[Count] = {};
  alignas(64) Number run_mean_[Count] = {};
  alignas(64) Number run_m2_[Count] = {};
};

}  // namespace ddpscope::batch_norm
