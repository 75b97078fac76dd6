#include <algorithm>
#include <array>
#include <filesystem>

#include "records/jsonl_writer.h"
#include "stacks/elf_file.h"
#include "stacks/symbol_source.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"
#include "tests/tools/run_tool.h"

namespace ddpscope {
namespace {

const std::string kLibrary = std::string(DDPSCOPE_NAMED_DIR) + "/libnamed_o2.so";

/// An address in sample_run of the library.
std::uint64_t offset_in_library() {
  const ElfFile file(kLibrary);
  std::uint64_t offset = 0x1000;
  const auto holds = [&](std::uint64_t at) {
    return file.functions(std::array<std::uint64_t, 1>{at})[0] == "sample_run";
  };
  while (!holds(offset) && offset < 0x10000) ++offset;
  return offset;
}

/// A report whose one frame has no name; the module it names is a file that could be opened.
void write_report(const std::string& dir) {
  auto opened = JsonlWriter::open(dir, {.run_id = "r1", .started = "2026-01-01T00:00:00Z"});
  REQUIRE(opened.writer != nullptr);
  Finding finding{.id = "autograd-inplace-saved", .severity = Severity::kError, .what = "written"};
  finding.fingerprint = "0123456789abcdef";
  finding.sites = {{.role = "changed",
                    .frames = {{.module = kLibrary,
                                .offset = offset_in_library(),
                                .build_id = ElfFile(kLibrary).build_id()}},
                    .state = SiteState::kUnsymbolized}};
  opened.writer->write_finding(finding);
  opened.writer->write_summary({});
}

}  // namespace

TEST_CASE("show names frames with the files of a folder and with no others", "[tools]") {
  if (make_dwarf_source(DebugFiles::kNone) == nullptr) DDPSCOPE_SKIP("built without libdw");
  const TemporaryDir dir;
  write_report(dir / "o");
  std::filesystem::create_directory(dir / "symbols");
  const std::string show = "ddpscope show " + (dir / "o");
  CHECK(run_shell(show).says("  changed: libnamed_o2.so+0x"));
  CHECK(run_shell(show + " --symbols " + (dir / "symbols")).says("  changed: libnamed_o2.so+0x"));

  std::filesystem::copy_file(kLibrary, dir / "symbols/as it was built");
  const auto named = run_shell(show + " --symbols " + (dir / "symbols"));
  CHECK(named.code == 1);
  CHECK(named.says("  changed: sample_run  "));
  CHECK(named.says("named_library.cpp:"));
  const auto json = run_shell(show + " --json --symbols " + (dir / "symbols"));
  CHECK(json.says("\"function\": \"sample_run\""));
}

TEST_CASE("show refuses symbols that are no folder with one line", "[tools]") {
  const TemporaryDir dir;
  write_report(dir / "o");
  const auto run = run_shell("ddpscope show " + (dir / "o") + " --symbols " + (dir / "none"));
  CHECK(run.code == 2);
  CHECK(std::count(run.text.begin(), run.text.end(), '\n') == 1);
}

}  // namespace ddpscope
