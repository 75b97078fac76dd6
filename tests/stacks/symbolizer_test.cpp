#include "stacks/symbolizer.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "stacks/capture.h"
#include "stacks/frame_names.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope {
namespace {

std::vector<void*> taken;

[[gnu::noinline]] void take() {
  taken.resize(64);
  taken.resize(capture_stack(taken).frames);
}

/// Loads the library, calls it and names the stack that it has; it stays loaded.
std::vector<void*> stack_in(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto run = reinterpret_cast<void (*)(void (*)())>(dlsym(library, "sample_run"));
  REQUIRE(run != nullptr);
  run(take);
  return taken;
}

std::string library(const std::string& kind) {
  return std::string(DDPSCOPE_NAMED_DIR) + "/libnamed_" + kind + ".so";
}

/// The frames that lie in the library.
std::vector<Frame> frames_in(const Site& site, const std::string& path) {
  std::vector<Frame> frames;
  std::ranges::copy_if(site.frames, std::back_inserter(frames),
                       [&](const Frame& frame) { return frame.module == path; });
  return frames;
}

std::int64_t marked_line(const std::string& mark) {
  std::ifstream source(DDPSCOPE_NAMED_SOURCE);
  std::string line;
  for (std::int64_t number = 1; std::getline(source, line); ++number) {
    if (line.ends_with("// LINE " + mark)) return number;
  }
  return -1;
}

std::unique_ptr<SymbolSource> source_named(const std::string& name) {
  if (name == "libdw") return make_dwarf_source(DebugFiles::kSystem);
  return name == "addr2line" ? make_addr2line_source() : make_elf_source();
}

bool has_frame(const std::vector<Frame>& frames, const std::string& function, std::int64_t line) {
  return std::ranges::any_of(frames, [&](const Frame& frame) {
    return frame.function.starts_with(function) && frame.line == line && !frame.library &&
           std::filesystem::path(frame.file).filename() == "named_library.cpp";
  });
}

}  // namespace

TEST_CASE("Frames have the user's function and line, inlined ones too", "[stacks]") {
  const std::string source = GENERATE("libdw", "addr2line");
  const std::string kind = GENERATE("o0", "o1", "o2", "separate");
  CAPTURE(source, kind);
  auto names = source_named(source);
  if (names == nullptr) DDPSCOPE_SKIP("built without libdw");
  Symbolizer symbolizer(std::move(names));
  const Site site = symbolizer.site("changed", stack_in(library(kind)));
  const auto frames = frames_in(site, library(kind));
  // addr2line has no namespaces for what has no name in the symbol table.
  const bool whole = source == "libdw";
  const std::string inlined = whole ? "sample::(anonymous namespace)::inlined" : "";
  const std::string lambda = whole ? "sample_run::{lambda" : "";
  CHECK(site.role == "changed");
  CHECK(site.state == SiteState::kComplete);
  CHECK(has_frame(frames, "sample::(anonymous namespace)::hidden", marked_line("hidden")));
  CHECK(has_frame(frames, inlined, marked_line("inlined")));
  CHECK(has_frame(frames, lambda, marked_line("lambda")));
  CHECK(has_frame(frames, "sample::Encoder::forward<double>", marked_line("forward")));
  CHECK(has_frame(frames, "sample_run", marked_line("run")));
  REQUIRE_FALSE(frames.empty());
  CHECK(frames[0].source == "look();  // LINE hidden");
  CHECK(frames[0].build_id.size() == 40);
  const auto of_function = [](const Frame& frame) {
    return frame.library && frame.function.starts_with("std::function<");
  };
  CHECK(std::ranges::any_of(frames, of_function));
}

TEST_CASE("Without debug information a frame has its function and no line", "[stacks]") {
  auto names = source_named(GENERATE("libdw", "addr2line", "elf"));
  if (names == nullptr) DDPSCOPE_SKIP("built without libdw");
  Symbolizer symbolizer(std::move(names));
  const std::string path = library("plain");
  const auto frames = frames_in(symbolizer.site("used", stack_in(path)), path);
  REQUIRE(frames.size() > 2);
  CHECK(frames[0].function == "sample::(anonymous namespace)::hidden");
  CHECK(frames.back().function == "sample_run");
  for (const Frame& frame : frames) {
    CHECK(frame.line == 0);
    CHECK(frame.file.empty());
    CHECK(frame.source.empty());
  }
}

TEST_CASE("A stripped file's frames have the names it exports, no name of a neighbour",
          "[stacks]") {
  auto names = source_named(GENERATE("libdw", "addr2line", "elf"));
  if (names == nullptr) DDPSCOPE_SKIP("built without libdw");
  Symbolizer symbolizer(std::move(names));
  const std::string path = library("stripped");
  const Site site = symbolizer.site("used", stack_in(path));
  const auto frames = frames_in(site, path);
  REQUIRE(frames.size() > 2);
  CHECK(frames[0].function.empty());
  CHECK(frames[0].offset > 0);
  CHECK(frames[0].build_id.size() == 40);
  CHECK(frames.back().function == "sample_run");
}

TEST_CASE("A stack for which no time is left says so and keeps its offsets", "[stacks]") {
  auto names = source_named(GENERATE("libdw", "addr2line"));
  if (names == nullptr) DDPSCOPE_SKIP("built without libdw");
  Symbolizer symbolizer(std::move(names));
  const auto stack = stack_in(library("o2"));
  const Site none = symbolizer.site("used", stack, std::chrono::milliseconds(0));
  CHECK(none.state == SiteState::kUnsymbolized);
  CHECK(frames_in(none, library("o2")).size() > 2);
  CHECK(frames_in(none, library("o2"))[0].line == 0);
  const Site later = symbolizer.site("used", stack);
  CHECK(later.state == SiteState::kComplete);
  CHECK(frames_in(later, library("o2"))[0].line == marked_line("hidden"));
}

TEST_CASE("A file that was replaced since it was loaded names nothing", "[stacks]") {
  const TemporaryDir folder;
  const std::string path = folder / "libreplaced.so";
  std::filesystem::copy_file(library("o2"), path);
  const auto stack = stack_in(path);
  std::filesystem::copy_file(library("o0"), folder / "new.so");
  std::filesystem::rename(folder / "new.so", path);
  Symbolizer symbolizer;
  const auto frames = frames_in(symbolizer.site("used", stack), path);
  REQUIRE(frames.size() > 2);
  for (const Frame& frame : frames) CHECK(frame.function.empty());
}

TEST_CASE("No addresses are a stack that is no longer kept", "[stacks]") {
  CHECK(Symbolizer().site("saved", {}).state == SiteState::kEvicted);
}

TEST_CASE("The frame that a reader wants is the innermost of the user's own", "[stacks]") {
  const Site site{.frames = {{.function = "at::add", .library = true},
                             {.function = "Net::forward"},
                             {.function = "main"}}};
  REQUIRE(user_frame(site) != nullptr);
  CHECK(user_frame(site)->function == "Net::forward");
  CHECK(user_frame({}) == nullptr);
}

TEST_CASE("Nobody is asked for debug information over the network", "[stacks]") {
  setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9/", 1);
  Symbolizer symbolizer;
  symbolizer.site("used", stack_in(library("stripped")));
  unsetenv("DEBUGINFOD_URLS");
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) CHECK(line.find("libdebuginfod") == std::string::npos);
}

}  // namespace ddpscope
