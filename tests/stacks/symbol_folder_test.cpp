#include "stacks/symbol_folder.h"

#include <array>
#include <filesystem>

#include "stacks/elf_file.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope {
namespace {

constexpr std::chrono::milliseconds kBudget{5000};

std::string named(const std::string& file) { return std::string(DDPSCOPE_NAMED_DIR) + "/" + file; }

/// An address in sample_run, as a report of a stripped library has it.
Site stripped_site() {
  const std::string path = named("libnamed_o2.so");
  const ElfFile file(path);
  std::uint64_t offset = 0x1000;
  const auto holds = [&](std::uint64_t at) {
    return file.functions(std::array<std::uint64_t, 1>{at})[0] == "sample_run";
  };
  while (!holds(offset) && offset < 0x10000) ++offset;
  return {.role = "changed",
          .frames = {{.module = "/gone/libnamed.so",
                      .offset = offset,
                      .build_id = ElfFile(path).build_id()}},
          .state = SiteState::kUnsymbolized};
}

}  // namespace

TEST_CASE("A folder of files names the frames of a report", "[stacks]") {
  if (make_dwarf_source(DebugFiles::kNone) == nullptr) DDPSCOPE_SKIP("built without libdw");
  const TemporaryDir folder;
  std::filesystem::create_directory(folder / "below");
  SECTION("from the library itself") {
    std::filesystem::copy_file(named("libnamed_o2.so"), folder / "below/any name");
  }
  SECTION("from its debug information, a stripped copy beside it") {
    std::filesystem::copy_file(named("libnamed_stripped.so"), folder / "a.so");
    std::filesystem::copy_file(named("separate.debug"), folder / "below/b.debug");
  }
  Site site = stripped_site();
  CHECK(SymbolFolder(folder.path()).name(&site, kBudget));
  CHECK(site.state == SiteState::kComplete);
  REQUIRE_FALSE(site.frames.empty());
  const Frame& frame = site.frames.back();
  CHECK(frame.function == "sample_run");
  CHECK(frame.file.ends_with("named_library.cpp"));
  CHECK(frame.line > 0);
  CHECK(frame.module == "/gone/libnamed.so");
}

TEST_CASE("A folder names nothing with a file of another build", "[stacks]") {
  const TemporaryDir folder;
  SECTION("there") { std::filesystem::copy_file(named("libnamed_o0.so"), folder / "libnamed.so"); }
  SECTION("or with none") {}
  Site site = stripped_site();
  CHECK_FALSE(SymbolFolder(folder.path()).name(&site, kBudget));
  CHECK(site.state == SiteState::kUnsymbolized);
  CHECK(site.frames.size() == 1);
  CHECK(site.frames[0].function.empty());
}

TEST_CASE("A folder leaves alone what has a line already, and asks no files outside", "[stacks]") {
  const TemporaryDir folder;
  std::filesystem::copy_file(named("libnamed_separate.so"), folder / "libnamed.so");
  std::filesystem::create_symlink(named("separate.debug"), folder / "separate.debug");
  Site site = stripped_site();
  SymbolFolder(folder.path()).name(&site, kBudget);
  for (const Frame& frame : site.frames) CHECK(frame.line == 0);
  Site known = stripped_site();
  known.frames[0].line = 7;
  CHECK_FALSE(SymbolFolder(named("")).name(&known, kBudget));
  CHECK(known.frames[0].line == 7);
  CHECK_FALSE(SymbolFolder(folder / "none").name(&known, kBudget));
}

}  // namespace ddpscope
