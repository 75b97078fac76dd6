#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ops/clip/table.h"

namespace ddpscope::clip {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// What one gradient holds, or a part of it.
struct Sums {
  double power_sum = 0;  // of |g|^p; for p = -inf the smallest |g|; nothing for p = 0 and inf
  double max_abs = 0;    // of what is no NaN
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;

  bool is_bad() const { return nan_count + inf_count > 0; }
};

/// The norms of order p, computed from sums in the order of the list.
class Measure {
 public:
  Measure(const Table& table, double p);

  const std::vector<Sums>& rows() const { return rows_; }
  double norm(std::size_t row) const;
  /// Of all rows; bad ones may be left out.
  double total(bool leaves_out_bad) const;
  /// Whether any row counts for that total.
  bool has_any(bool leaves_out_bad) const;
  /// Of the rows of each module, `module_of` row i.
  std::vector<double> module_norms(const std::vector<std::int32_t>& module_of,
                                   bool leaves_out_bad) const;
  /// Lowest row with a NaN or Inf, -1 if there is none.
  std::int64_t first_bad() const;

 private:
  struct Group {
    Sums sums;
    std::int64_t count = 0;
  };
  void add(std::size_t row, bool leaves_out_bad, Group& group) const;
  double norm_of(const Group& group) const;

  const Table& table_;
  double p_;
  std::vector<Sums> rows_;
};

}  // namespace ddpscope::clip
