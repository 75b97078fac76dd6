#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "model/finding.h"
#include "stacks/symbol_source.h"

namespace ddpscope {

/// Names the frames of a report with files that lie in one folder, and no others: a file counts
/// only if its build id is the frame's.
class SymbolFolder {
 public:
  explicit SymbolFolder(const std::string& folder)
      : SymbolFolder(folder, make_best_source(DebugFiles::kNone)) {}
  SymbolFolder(const std::string& folder, std::unique_ptr<SymbolSource> source);

  /// Replaces each frame that has no line by what the folder knows of it, inlined functions among
  /// it. True if it knew any. kUnsymbolized becomes kComplete when a frame has a name.
  bool name(Site* site, std::chrono::milliseconds budget);

 private:
  std::unique_ptr<SymbolSource> source_;
  std::map<std::string, std::vector<std::string>> files_;  // by build id
};

}  // namespace ddpscope
