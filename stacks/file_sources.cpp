#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "stacks/child_output.h"
#include "stacks/elf_file.h"
#include "stacks/frame_names.h"
#include "stacks/symbol_source.h"

namespace ddpscope {
namespace {

/// Fills in the functions of those that have none.
void add_functions(const std::string& file, std::span<const std::uint64_t> offsets,
                   std::vector<Names>* names) {
  const std::vector<std::string> functions = ElfFile(file).functions(offsets);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if ((*names)[i].empty() && !functions[i].empty()) {
      (*names)[i].push_back({.function = demangle(functions[i])});
    }
  }
}

class ElfSource : public SymbolSource {
 public:
  FoundNames find(const std::string& file, std::span<const std::uint64_t> offsets,
                  Deadline) override {
    FoundNames found{.of = std::vector<Names>(offsets.size())};
    add_functions(file, offsets, &found.of);
    return found;
  }
};

/// `place` is "file:line", perhaps with more behind it.
void read_place(const std::string& place, Frame* frame) {
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos || place.starts_with("??")) return;
  const char* digits = place.c_str() + colon + 1;
  if (std::from_chars(digits, place.c_str() + place.size(), frame->line).ec != std::errc()) {
    frame->line = 0;
    return;
  }
  frame->file = std::filesystem::path(place.substr(0, colon)).lexically_normal().string();
}

/// Reads what `addr2line -afi` writes: each address, then a line of function and a line of place
/// for each frame.
std::vector<Names> read_answers(const std::string& text, std::size_t count) {
  std::vector<Names> answers(count);
  std::istringstream lines(text);
  std::size_t next = 0;
  std::string line;
  std::string place;
  while (std::getline(lines, line)) {
    if (line.starts_with("0x")) {
      ++next;
      continue;
    }
    if (!std::getline(lines, place) || next == 0 || next > count) break;
    Frame frame{.function = demangle(line)};
    read_place(place, &frame);
    answers[next - 1].push_back(std::move(frame));
  }
  // Without any line it knows no more than the nearest symbol, which may be a neighbour's.
  for (Names& answer : answers) {
    if (std::ranges::all_of(answer, [](const Frame& frame) { return frame.line == 0; })) {
      answer.clear();
    }
  }
  return answers;
}

class Addr2lineSource : public SymbolSource {
 public:
  FoundNames find(const std::string& file, std::span<const std::uint64_t> offsets,
                  Deadline deadline) override {
    FoundNames found{.of = std::vector<Names>(offsets.size())};
    std::vector<std::string> command{"addr2line", "-afi", "-e", file};
    for (const std::uint64_t offset : offsets) command.push_back(fmt::format("{:#x}", offset));
    const auto output = child_output(command, deadline);
    if (output) {
      found.in_time = output->in_time;
      if (output->in_time) found.of = read_answers(output->text, offsets.size());
    }
    add_functions(file, offsets, &found.of);
    return found;
  }
};

}  // namespace

std::unique_ptr<SymbolSource> make_addr2line_source() {
  return std::make_unique<Addr2lineSource>();
}

std::unique_ptr<SymbolSource> make_elf_source() { return std::make_unique<ElfSource>(); }

std::unique_ptr<SymbolSource> make_best_source(DebugFiles debug_files) {
  auto best = make_dwarf_source(debug_files);
  if (best != nullptr) return best;
  return debug_files == DebugFiles::kSystem ? make_addr2line_source() : make_elf_source();
}

}  // namespace ddpscope
