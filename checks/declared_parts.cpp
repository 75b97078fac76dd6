#include "checks/declared_parts.h"

#include <algorithm>

#include "config/glob.h"

namespace ddpscope {

void DeclaredParts::see(ModelId model, const std::vector<ModuleInfo>& modules,
                        const std::vector<RegisteredTensor>& tensors) {
  saw_models_ = true;
  for (Declared& declared : all_) {
    if (declared.covers || !declared.is_of(model)) continue;
    const std::string& glob = declared.what.path_glob;
    const auto is_covered = [&glob](const std::string& path) { return glob_covers(glob, path); };
    declared.covers = std::ranges::any_of(modules, is_covered, &ModuleInfo::path) ||
                      std::ranges::any_of(tensors, [&](const RegisteredTensor& tensor) {
                        const std::string& path = tensor.module_path;
                        return is_covered(path.empty() ? tensor.name : path + "." + tensor.name);
                      });
  }
}

bool DeclaredParts::cover(ModelId model, std::string_view path, std::string_view kind) const {
  return std::ranges::any_of(all_, [&](const Declared& declared) {
    const bool is_kind = declared.what.kind == kind || declared.what.kind == "intended";
    return is_kind && declared.is_of(model) && glob_covers(declared.what.path_glob, path);
  });
}

bool DeclaredParts::say_average(ModelId model) const {
  return std::ranges::any_of(all_, [model](const Declared& declared) {
    return declared.what.kind == "averaged" && declared.what.model == model;
  });
}

std::vector<DeclarationEvent> DeclaredParts::without_effect() const {
  std::vector<DeclarationEvent> idle;
  if (!saw_models_) return idle;
  for (const Declared& declared : all_) {
    if (!declared.covers && declared.what.kind != "averaged") idle.push_back(declared.what);
  }
  return idle;
}

}  // namespace ddpscope
