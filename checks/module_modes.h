#pragma once

#include <map>
#include <string>
#include <utility>

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

  void update(const TreeEvent& event);
  const Mode* find(const Place& place) const;

 private:
  std::map<Place, Mode> modes_;
};

}  // namespace ddpscope
