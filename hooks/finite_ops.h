#pragma once

#include <string>
#include <string_view>

namespace ddpscope {

/// How an operator can return NaN or Inf although what it read was finite.
enum class Makes {
  kNothing,     ///< not at all, or in sums that exceed the type
  kByOverflow,  ///< where products exceed the type
  kByDomain,    ///< outside its domain, or otherwise
};

/// Of the operator that makes nodes of this name.
Makes makes_nonfinite(const std::string& node);

/// Whether the operator is a logarithm, which is finite where what it read was positive.
bool is_logarithm(const std::string& node);

/// Whether the operator returned NaN or Inf for some number that it read, of numbers from `min` on
/// and of a magnitude up to `absmax`.
bool leaves_domain(const std::string& node, double min, double absmax);

/// 0 / 0 where there is nothing to average.
bool is_average(std::string_view node);

/// Attention keeps its mask and CTC the logarithms of its paths' probabilities, with -Inf on
/// purpose.
bool keeps_infinities(std::string_view node);

/// Whether Inf and no NaN in its result means that it read 0.
bool inverts_zero(std::string_view node);

bool is_softmax(std::string_view node);
bool is_cast(std::string_view node);
/// What it read is not saved, nor needed for its gradient.
bool keeps_no_operand(std::string_view node);
/// Of those that make nothing: what is beyond 65504.
bool overflows_in_half(std::string_view node);
/// Products of operands up to this size may.
bool overflows_in_float(double absmax);
/// A quotient by what is neither zero nor tiny: the divisor is saved always.
bool divides_safely(std::string_view node, double min);
/// The mean of squares of what it saved does not overflow, also in half.
bool is_mean_in_range(std::string_view node, double absmax);

}  // namespace ddpscope
