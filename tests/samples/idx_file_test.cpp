#include "samples/digits/idx_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/support/catch.h"

namespace digits {
namespace {

using std::filesystem::path;

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("ddpscope-idx-" + std::to_string(::getpid()))) {
    ImageSet set;
    set.rows = 2;
    set.columns = 3;
    set.pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
    set.labels = {4, 9};
    write_image_set(path_, set);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  path images() const { return path_ / "train-images-idx3-ubyte"; }
  path labels() const { return path_ / "train-labels-idx1-ubyte"; }
  const path& get() const { return path_; }

 private:
  path path_;
};

void overwrite(const path& file, std::streamoff at, char byte) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(at);
  stream.put(byte);
}

std::string refusal(const Folder& folder) {
  try {
    read_image_set(folder.get());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an image set is read as it was written", "[samples]") {
  const Folder folder;
  const ImageSet set = read_image_set(folder.get());
  CHECK(set.rows == 2);
  CHECK(set.columns == 3);
  CHECK(set.pixels.size() == 12);
  CHECK(set.pixels.back() == 255);
  CHECK(set.labels == std::vector<std::uint8_t>{4, 9});
}

TEST_CASE("a damaged image set is refused with the file and the reason", "[samples]") {
  const Folder folder;
  SECTION("a wrong magic number") {
    overwrite(folder.images(), 3, 1);
    CHECK(says(refusal(folder), "magic number is 2049, an idx file of this kind has 2051"));
  }
  SECTION("a header that ends early") {
    std::filesystem::resize_file(folder.labels(), 6);
    CHECK(says(refusal(folder), "train-labels-idx1-ubyte: ends inside its header"));
  }
  SECTION("fewer pixels than promised") {
    std::filesystem::resize_file(folder.images(), 20);
    CHECK(says(refusal(folder), "promises 12 bytes of data and 4 follow"));
  }
  SECTION("bytes after the last pixel") {
    std::filesystem::resize_file(folder.images(), 40);
    CHECK(says(refusal(folder), "promises 12 bytes of data and 24 follow"));
  }
  SECTION("a count far beyond the file") {
    overwrite(folder.images(), 4, '\x7f');
    CHECK(says(refusal(folder), "12 follow"));
  }
  SECTION("no image") {
    overwrite(folder.images(), 7, 0);
    CHECK(says(refusal(folder), "holds no image"));
  }
  SECTION("images without pixels") {
    overwrite(folder.images(), 11, 0);
    CHECK(says(refusal(folder), "images are 0 x 3 pixels"));
  }
  SECTION("another number of labels than of images") {
    overwrite(folder.labels(), 7, 3);
    CHECK(says(refusal(folder), "holds 3 labels for 2 images"));
  }
  SECTION("a label that is no digit") {
    overwrite(folder.labels(), 8, 10);
    CHECK(says(refusal(folder), "holds the label 10"));
  }
  SECTION("an absent file") {
    std::filesystem::remove(folder.labels());
    CHECK(says(refusal(folder), "cannot be opened"));
  }
}

}  // namespace digits
