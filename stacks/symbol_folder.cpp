#include "stacks/symbol_folder.h"

#include <algorithm>
#include <filesystem>

#include "stacks/elf_file.h"
#include "stacks/frame_names.h"

namespace ddpscope {
namespace {

constexpr std::size_t kMostFiles = 10000;

bool has_line(const Names& names) {
  return std::ranges::any_of(names, [](const Frame& frame) { return frame.line > 0; });
}

Frame named(const Frame& bare, const Frame& found) {
  Frame frame = bare;
  frame.function = short_function(found.function);
  frame.file = found.file;
  frame.line = found.line;
  frame.library = is_library(bare.module, found.file, found.function);
  return frame;
}

}  // namespace

SymbolFolder::SymbolFolder(const std::string& folder, std::unique_ptr<SymbolSource> source)
    : source_(std::move(source)) {
  std::error_code error;
  const auto options = std::filesystem::directory_options::skip_permission_denied;
  std::filesystem::recursive_directory_iterator at(folder, options, error);
  std::size_t seen = 0;
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    std::error_code none;
    if (!at->is_regular_file(none) || at->is_symlink(none)) continue;
    if (++seen > kMostFiles) break;
    const std::string id = ElfFile(at->path().string()).build_id();
    if (!id.empty()) files_[id].push_back(at->path().string());
  }
  for (auto& [id, paths] : files_) std::ranges::sort(paths);
}

bool SymbolFolder::name(Site* site, std::chrono::milliseconds budget) {
  const Deadline deadline = std::chrono::steady_clock::now() + budget;
  std::vector<Frame> frames;
  bool knew = false;
  for (const Frame& frame : site->frames) {
    const auto files = frame.line > 0 ? files_.end() : files_.find(frame.build_id);
    Names best;
    // A stripped file and its debug information have the same id.
    for (std::size_t i = 0; files != files_.end() && i < files->second.size(); ++i) {
      Names names = source_->find(files->second[i], {&frame.offset, 1}, deadline).of[0];
      if (best.empty() || has_line(names)) best = std::move(names);
      if (has_line(best)) break;
    }
    const bool better = has_line(best) || (frame.function.empty() && !best.empty());
    if (!better) frames.push_back(frame);
    for (std::size_t i = 0; better && i < best.size(); ++i) {
      frames.push_back(named(frame, best[i]));
    }
    knew = knew || better;
  }
  site->frames = std::move(frames);
  if (knew && site->state == SiteState::kUnsymbolized) site->state = SiteState::kComplete;
  return knew;
}

}  // namespace ddpscope
