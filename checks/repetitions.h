#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Tensors of one module that stand in a list more than once, and what the report says of them.
struct Repeated {
  Registration place;
  std::vector<std::string> names;
  std::set<std::string> paths;
  std::int64_t times = 0;
};

/// Where they stand, and what repeats them.
struct RepetitionKind {
  std::string where;   ///< optimizer or tree
  std::string shares;  ///< impl or storage
  Severity severity = Severity::kError;
  bool over_groups = false;  ///< several groups of one optimizer hold them
};

Finding repeated_finding(const Repeated& repeated, const RepetitionKind& kind,
                         const RunState& state);

/// Collects repeated tensors by the module that registers them last.
class Repetitions {
 public:
  /// `others`: tensors over the same memory.
  void add(const TensorState& tensor, std::int64_t times,
           const std::vector<const TensorState*>& others);
  const std::map<std::pair<ModelId, std::string>, Repeated>& by_module() const {
    return by_module_;
  }

 private:
  std::map<std::pair<ModelId, std::string>, Repeated> by_module_;
};

}  // namespace ddpscope
