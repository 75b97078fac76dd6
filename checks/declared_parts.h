#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/tree_event.h"

namespace ddpscope {

/// What the user declared of parts of the models.
class DeclaredParts {
 public:
  void add(const DeclarationEvent& event) { all_.push_back({.what = event}); }
  /// What is registered in a model now.
  void see(ModelId model, const std::vector<ModuleInfo>& modules,
           const std::vector<RegisteredTensor>& tensors);

  /// Whether that is declared of the module or tensor at `path`.
  bool cover(ModelId model, std::string_view path, std::string_view kind) const;
  bool say_average(ModelId model) const;
  /// Those that cover nothing that was ever registered in any model.
  std::vector<DeclarationEvent> without_effect() const;

 private:
  struct Declared {
    DeclarationEvent what;
    bool covers = false;
    bool is_of(ModelId model) const { return what.model == 0 || what.model == model; }
  };
  std::vector<Declared> all_;
  bool saw_models_ = false;
};

}  // namespace ddpscope
