#pragma once

#include <map>
#include <string>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Two names of what is held once.
struct SharedRoots {
  std::string first;
  std::string second;
  std::vector<TensorId> shared;
  std::int64_t total = 0;  ///< parameters of the second
  /// One object that was attached twice without a name: by chance, or as an object and its copy.
  bool is_nameless = false;
  bool by_memory = false;  ///< the parameters are others, and lie in the memory of those
};

/// Of parameters and those in whose memory they lie: pairs of models of which that is most.
std::vector<SharedRoots> sharing_memory(const std::map<TensorId, TensorId>& sources,
                                        const RunState& state);

/// Remembers how the program attached its models.
class AttachedRoots {
 public:
  void on(const TreeEvent& event);
  /// All that have most of their parameters in common; a root and a part of it are none.
  std::vector<SharedRoots> shared(const RunState& state) const;

 private:
  struct Attached {
    std::vector<std::string> names;  ///< that the program gave
    std::int64_t step = 0;           ///< of the first
    int times = 0;                   ///< in that step
  };
  std::map<ModelId, Attached> attached_;
};

}  // namespace ddpscope
