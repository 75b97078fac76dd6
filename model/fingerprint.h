#pragma once

#include <string>

#include "model/finding.h"

namespace ddpscope {

/// 16 hex digits of id, model, module_path, subject, op and the fact `cause`: equal on every rank,
/// in every step and in every run of the same program.
std::string fingerprint_of(const Finding& finding);

}  // namespace ddpscope
