#pragma once

#include <string>

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

}  // namespace ddpscope
