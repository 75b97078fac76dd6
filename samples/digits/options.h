#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace digits {

/// The mistakes that `--bug` plants; each is one line marked `// BUG`.
enum class Bug {
  kNone,
  kUnregisteredBlocks,
  kUnregisteredTensor,
  kUnusedHead,
  kUncalledLayer,
  kDroppedResult,
  kNoGradTrunk,
  kReplacedHead,
  kForgottenGroup,
  kEmptyOptimizer,
  kNoZeroGrad,
  kHalfZeroGrad,
  kTiedTwice,
  kReaderThrows,
  kListedGradients,
  kUnsyncedParameters,
  kUnsyncedBuffers,
  kOrderByRank,
  kRateByRank,
  kHeadByRank,
  kSkippedBatch,
  kEarlyEnd,
  kSameOrder,
  kFixedReplicas,
};

struct Options {
  Bug bug = Bug::kNone;
  std::filesystem::path data = "data";
  std::int64_t epochs = 2;
  std::int64_t max_steps = 0;  ///< 0 trains all epochs
  std::int64_t batch = 32;
  std::uint64_t seed = 1;
  std::int64_t timeout_s = 60;  ///< for which processes wait for each other
  bool diagnostics = true;
  std::filesystem::path dump;  ///< empty writes none
  bool help = false;
  bool list_bugs = false;
};

/// @throws std::runtime_error naming the argument that cannot be used.
Options parse(const std::vector<std::string_view>& words);

/// Names as `--bug` takes them, in the order of `Bug`.
std::vector<std::string_view> bug_names();

std::string_view usage();

}  // namespace digits
