#pragma once

#include <optional>
#include <string>

#include "records/file_descriptor.h"

namespace ddpscope {

/// The rank that speaks for those that fail: of the ranks of one run and host the first that asks,
/// as long as it lives.
class FirstToFail {
 public:
  bool is_it(const std::string& run_id);

 private:
  FileDescriptor name_;
  std::optional<bool> answer_;
};

}  // namespace ddpscope
