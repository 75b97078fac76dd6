#pragma once

#include <map>
#include <string>
#include <utility>

#include "checks/run_state.h"
#include "model/tree_event.h"

namespace ddpscope {

/// The training mode and the parameters of each registered module, as the trees tell them.
class ModuleModes {
 public:
  using Place = std::pair<ModelId, std::string>;
  struct Mode {
    bool training = true;
    std::int64_t parameters = 0;  ///< registered in the module itself
    std::int64_t trainable = 0;   ///< of these
  };

  /// `models`: those that exist. Of others nothing is kept.
  void update(const TreeEvent& event, const std::map<ModelId, ModelState>& models);
  const Mode* find(const Place& place) const;
  bool any_trains(ModelId model) const;  ///< a parameter of it

 private:
  std::map<Place, Mode> modes_;
};

/// Whether the program itself wrote a parameter of the module after this step.
bool is_written(const TensorTable& tensors, const ModuleModes::Place& place, std::int64_t after);

}  // namespace ddpscope
