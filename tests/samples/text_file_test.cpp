#include "samples/chars/text_file.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace chars {
namespace {

void write(const std::string& file, const std::string& text) { std::ofstream(file) << text; }

}  // namespace

TEST_CASE("a folder is read as its documents in the order of their names", "[samples]") {
  const ddpscope::TemporaryDir folder;
  std::filesystem::create_directory(folder / "below");
  write(folder / "b.md", "two ");
  write(folder / "a.md", "one ");
  write(folder / "below/c.md", "three");
  write(folder / "a.txt", "not a document");
  CHECK(read_text(folder.path()) == "one two three");
}

TEST_CASE("a single file is read whatever its name", "[samples]") {
  const ddpscope::TemporaryDir folder;
  write(folder / "a.txt", "text");
  CHECK(read_text(folder / "a.txt") == "text");
}

TEST_CASE("an absent text is refused with its name", "[samples]") {
  const ddpscope::TemporaryDir folder;
  const std::string file = folder / "absent.md";
  std::string refusal;
  try {
    read_text(file);
  } catch (const std::runtime_error& error) {
    refusal = error.what();
  }
  CHECK(refusal == file + ": cannot be read");
}

}  // namespace chars
